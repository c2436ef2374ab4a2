// The parameters of the kernels in test_kernels.cc: "count", "meet" and "shared", and "gate".
#pragma once

#include "tests/cuda/double/host_kernel.h"

namespace ringwood::testing {

struct CountParameters {
  uint64_t* threads;
};
struct GateParameters {
  uint64_t* gate;
};

}  // namespace ringwood::testing
