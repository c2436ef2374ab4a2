#include "collectives/device/group/kernel_images.h"

#include "kernels-0.h"
#include "kernels-1.h"
#include "kernels-2.h"
#include "kernels-3.h"

// The assembler copies the files; they are found by -I.
#define RINGWOOD_IMAGE(number)     \
  asm(".section .rodata\n"         \
      ".balign 64\n"               \
      "ringwood_image_" #number    \
      ":\n"                        \
      ".incbin \"kernels-" #number \
      ".fatbin\"\n"                \
      ".previous\n");              \
  extern "C" __attribute__((visibility("hidden"))) const char ringwood_image_##number[];

RINGWOOD_IMAGE(0)
RINGWOOD_IMAGE(1)
RINGWOOD_IMAGE(2)
RINGWOOD_IMAGE(3)

namespace ringwood::device {

static_assert(kKernelBytes0 > 0 && kKernelBytes1 > 0 && kKernelBytes2 > 0 && kKernelBytes3 > 0);

std::span<const void* const> kernel_images() {
  static const void* const images[] = {ringwood_image_0, ringwood_image_1, ringwood_image_2,
                                       ringwood_image_3};
  return images;
}

}  // namespace ringwood::device
