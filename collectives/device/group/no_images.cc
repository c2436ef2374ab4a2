#include "collectives/device/group/kernel_images.h"

namespace ringwood::device {

std::span<const void* const> kernel_images() { return {}; }

}  // namespace ringwood::device
