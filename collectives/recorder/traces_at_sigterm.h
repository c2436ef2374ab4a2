// With RINGWOOD_TRACE_DIR a process that is ended by SIGTERM, as launchers and batch systems do
// with the ranks that are left, writes the files of its groups first.
//
// The signal's handler is ours only where the program had none; one that it sets later replaces
// ours. The handler rings a thread, which writes for kTermPatience at most and then ends the
// process as the signal would have. A forked child ends at once: it has no such thread, and no
// groups.
#pragma once

#include <chrono>
#include <memory>

#include "collectives/recorder/group_trace.h"

namespace ringwood {

inline constexpr std::chrono::seconds kTermPatience{2};

// Thread safe. No effect where the process cannot have one more thread or descriptor.
void write_at_sigterm(const std::weak_ptr<GroupTrace>& trace) noexcept;

}  // namespace ringwood
