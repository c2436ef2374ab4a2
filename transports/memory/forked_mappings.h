// Private copies of shared mappings for forked children, as fork() makes of ordinary memory.
//
// Before fork() returns in the child, it gets private copies of all that lies in the file, wherever
// that is by then; fork() returns in the parent when it has them. The copies are made at once, not
// when written, with async-signal-safe calls only, and without any lock. What another handler of
// fork() runs earlier in the child sees the shared pages.
#pragma once

#include "transports/memory/process_maps.h"

namespace ringwood {

// For all forks of this process from now on; a child starts anew. False: fork() cannot be prepared.
// Precondition: every call of a process is for the same file. Any thread.
bool copy_mappings_to_forks(const FileId& file);

}  // namespace ringwood
