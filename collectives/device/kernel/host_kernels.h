// The kernels of a GPU (kernels.cu) for the host's threads, by the same names.
#pragma once

#include <string_view>

#include "collectives/device/kernel/host_machine.h"

namespace ringwood::device {

// What one thread of a block does. `shared` is the block's, and needs no contents.
using HostKernel = void (*)(HostMachine machine, BlockMemory& shared, const Launch& launch);

// Null: there is no such kernel.
HostKernel host_kernel(std::string_view name);

}  // namespace ringwood::device
