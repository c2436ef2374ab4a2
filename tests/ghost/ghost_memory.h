// Memory of the ghost device, kept as CUDA's allocator in torch keeps it, so that a lifetime that
// is wrong there is wrong here.
//
// A block that is freed serves the next tensor of its size that is made on the same stream, at
// once, whatever that stream still does with it. Other streams that use it must be told by
// recordStream(): the block is then free when they have come so far. Nothing goes back to the
// driver.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace ghost {

c10::DeviceAllocator& allocator();
// How often a stream was recorded on a block.
long recorded_streams();

}  // namespace ghost
