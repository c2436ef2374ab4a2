// Where the memory of a pointer is, as the driver tells it.
#pragma once

#include "transports/cuda/driver.h"

namespace ringwood::cuda {

struct PointerPlace {
  CUresult code = CUDA_SUCCESS;  // the rest is meaningless where it is another
  bool of_device = false;        // the host cannot access it
  bool managed = false;          // both can
  int ordinal = -1;
};

// Thread safety: any thread, with or without a current context.
inline PointerPlace place_of(decltype(MemoryCalls::pointer_attributes) ask, const void* pointer) {
  unsigned kind = 0, managed = 0;
  PointerPlace place;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&kind, &managed, &place.ordinal};
  place.code = ask(3, asked, answers, reinterpret_cast<CUdeviceptr>(pointer));
  place.managed = managed != 0;
  place.of_device = kind == CU_MEMORYTYPE_DEVICE && !place.managed;
  return place;
}

}  // namespace ringwood::cuda
