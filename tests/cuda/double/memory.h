// The memory of the double's devices: pages of memfds, so that processes really share it.
//
// A memfd is as long as the allocation, and a page more, in which stands what an importing process
// has to know. Addresses are PROT_NONE until access is given, and again after the memory is
// unmapped, so that whoever still uses them ends with a signal. Forked children do not have them,
// as they have no device memory of a real driver.
//
// Thread safety: one mutex for all tables.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "tests/cuda/double/driver_state.h"

namespace fake_cuda {

// Pages, whoever maps them.
class Pages {
 public:
  // Null: no memory.
  static std::shared_ptr<Pages> make(size_t bytes, int physical_device, unsigned handle_types);
  // Of a descriptor, which is duplicated. Null: it is none of the double's.
  static std::shared_ptr<Pages> of(int fd);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  int fd() const { return fd_; }
  size_t bytes() const { return about_.bytes; }
  int physical_device() const { return about_.physical_device; }
  unsigned handle_types() const { return about_.handle_types; }

 private:
  struct About {
    uint64_t magic = 0;
    uint64_t bytes = 0;
    int32_t physical_device = 0;
    uint32_t handle_types = 0;
  };
  Pages(int fd, const About& about) : fd_(fd), about_(about) {}
  int fd_;
  About about_;
};

enum class Origin { virtual_memory, allocated, opened };

struct Mapped {
  std::shared_ptr<Pages> pages;
  size_t bytes = 0;      // of addresses
  size_t asked_for = 0;  // by cuMemAlloc; otherwise as many
  Origin origin = Origin::virtual_memory;
  uint64_t id = 0;
  std::map<CUdevice, int> access = {};  // of each device; the addresses have the most of them
  int most_access() const {
    int most = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (const auto& [device, flags] : access) most = std::max(most, flags);
    return most;
  }
};

struct Pinned {
  size_t bytes = 0;
  CUcontext context = nullptr;
};

struct Handle {
  std::shared_ptr<Pages> pages;
  int references = 0;
};

struct Tables {
  std::mutex mutex;
  uint64_t next_id = 1;
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<CUdeviceptr, size_t> reserved;
  std::map<CUdeviceptr, Mapped> mapped;
  std::map<CUdeviceptr, Pinned> pinned;
};
Tables& tables();

// The entry of the table that contains the address; end(): none.
template <class Table, class Bytes>
auto containing(Table& table, CUdeviceptr address, Bytes&& bytes_of) {
  auto found = table.upper_bound(address);
  if (found == table.begin()) return table.end();
  --found;
  return address - found->first < bytes_of(found->second) ? found : table.end();
}
// Whether all of a range is device memory, and some device has access to it.
bool is_accessible(Tables& all, CUdeviceptr address, size_t bytes);
inline auto mapping_at(Tables& all, CUdeviceptr address) {
  return containing(all.mapped, address, [](const Mapped& m) { return m.bytes; });
}

// What one call does to addresses; false: the kernel refuses. The tables' mutex is held.
CUdeviceptr reserve_addresses(size_t bytes, size_t alignment);  // 0: refused
bool show_pages(CUdeviceptr at, const Pages& pages, size_t bytes);
bool hide_pages(CUdeviceptr at, size_t bytes);
bool protect(CUdeviceptr at, size_t bytes, int access);

// A whole mapping with addresses of its own, accessible to the device: cuMemAlloc,
// cuIpcOpenMemHandle.
std::optional<CUdeviceptr> map_anywhere(std::shared_ptr<Pages> pages, size_t asked_for,
                                        Origin origin, CUdevice device);
// Its end. False: there is none of this origin at the address.
bool unmap_anywhere(CUdeviceptr at, Origin origin);

inline size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace fake_cuda
