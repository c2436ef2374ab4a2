// The memory of the double's devices, and host memory that is registered.
//
// What the program gets is an address without access: whoever touches it as host memory ends with a
// signal, as on a machine where a GPU's memory is not the host's. The double itself goes by an
// alias. Addresses of memory that was freed stay taken, so that a late use faults as well. Forked
// children have neither.
//
// Thread safety: one mutex for all tables.
#pragma once

#include <map>
#include <optional>

#include "tests/cuda/double/driver_state.h"

namespace fake_cuda {

// Of cuMemAlloc.
struct Allocated {
  char* alias = nullptr;
  size_t bytes = 0;      // whole pages
  size_t asked_for = 0;  // of them
  CUdevice device = 0;
};

// Of cuMemHostRegister, or pinned by cuMemHostAlloc.
struct Pinned {
  size_t bytes = 0;
  CUcontext context = nullptr;
  bool registered = false;
};

struct Tables {
  std::mutex mutex;
  std::map<CUdeviceptr, Allocated> allocated;
  std::map<CUdeviceptr, Pinned> pinned;
};
Tables& tables();

// The entry of the table that contains the address; end(): none.
template <class Table>
auto containing(Table& table, CUdeviceptr address) {
  auto found = table.upper_bound(address);
  if (found == table.begin()) return table.end();
  --found;
  return address - found->first < found->second.bytes ? found : table.end();
}

// Where the double finds [address, address + bytes) of a device, or of pinned memory. Null: it is
// neither, or not as long. Takes the mutex.
char* seen_by_device(CUdeviceptr address, size_t bytes);
bool is_pinned(const void* data, size_t bytes);

inline size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace fake_cuda
