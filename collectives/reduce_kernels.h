// The kernels of one instruction set as a table, and the tables this binary was built with.
//
// Internal to reduce: only reduce.cc and reduce_kernels.cc include it. Tables are immutable and
// live as long as the program; any thread may call any kernel. No pointer needs alignment.
#pragma once

#include <vector>

#include "collectives/reduce.h"

namespace ringwood {

struct Kernels {
  // dst op= src over `bytes` bytes, a multiple of the element size. Null where supports() is false.
  using Combine = void (*)(void* dst, const void* src, size_t bytes);
  // dst *= factor over `bytes` bytes. Null for integers and bool.
  using Scale = void (*)(void* dst, size_t bytes, double factor);
  // Null for all but 16- and 8-bit floats.
  using IntoWide = void (*)(float* wide, const void* src, size_t count);
  using Narrow = void (*)(void* dst, const float* wide, size_t count);

  const char* simd = "";  // "scalar", "avx2", "avx512", "neon", "sve"
  Combine reduce[kDataTypes][kReduceOps] = {};
  Scale scale[kDataTypes] = {};
  IntoWide widen[kDataTypes] = {};
  IntoWide add_wide[kDataTypes] = {};
  IntoWide multiply_wide[kDataTypes] = {};
  Narrow narrow[kDataTypes] = {};
};

struct KernelSet {
  const Kernels* kernels;
  bool runs_here;  // the machine has the instructions
};

// Every table in this binary, best first. The last one runs on every machine.
std::vector<KernelSet> kernel_sets();

// The last of them: as quick as any below the size of a vector, where the others go through a
// buffer.
const Kernels& plain_kernels();

}  // namespace ringwood
