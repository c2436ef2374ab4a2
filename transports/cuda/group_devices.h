// A group's access to the devices of its process (transports/device_copies.h): gates and copies,
// the pinned scratch of every track, and that of messages.
//
// Nothing of CUDA is loaded before the first ready(). Scratch grows in steps and is kept,
// also what was outgrown, because operations in flight may use it, and to unpin it may wait for
// them.
#pragma once

#include <memory>

#include "transports/base/options.h"
#include "transports/device_copies.h"

namespace ringwood {

// For a group whose operations have `tracks` tracks; `doorbell`: an eventfd that outlives it.
std::unique_ptr<GroupDevices> make_group_devices(const CudaOptions& options, int tracks,
                                                 int doorbell);

}  // namespace ringwood
