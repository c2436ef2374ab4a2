// Private copies of shared mappings for forked children, as fork() makes of ordinary memory.
//
// Before fork() returns in the child, the child gets private copies of all mappings of the file,
// wherever they are then; fork() returns in the parent when the child has them. The copies are made
// at once, not when written, with async-signal-safe calls only and without any lock. Another fork
// handler that runs earlier in the child sees the shared pages.
#pragma once

#include "transports/memory/process_maps.h"

namespace ringwood {

// Takes effect for all later forks of this process; a child starts anew. False: the fork handlers
// cannot be installed. Precondition: every call of a process is for the same file. Any thread.
bool copy_mappings_to_forks(const FileId& file);

}  // namespace ringwood
