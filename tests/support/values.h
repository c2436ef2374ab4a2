// Buffers of any data type, filled from and read as doubles. Complex elements are v + 2v i.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "transports/memory/arena.h"
#include "transports/memory/remap.h"

namespace ringwood::testing {

template <class T>
void put(std::byte* at, double v) {
  const T t = static_cast<T>(v);
  std::memcpy(at, &t, sizeof t);
}
template <class T>
double get(const std::byte* at) {
  T t;
  std::memcpy(&t, at, sizeof t);
  return static_cast<double>(t);
}

inline void put_float(std::byte* at, DataType type, double v) {
  if (part_size(type) == 8) return put<double>(at, v);
  if (part_size(type) == 4) return put<float>(at, v);
  const auto f = static_cast<float>(v);
  narrow(at, &f, 1, type);
}
inline double get_float(const std::byte* at, DataType type) {
  if (part_size(type) == 8) return get<double>(at);
  if (part_size(type) == 4) return get<float>(at);
  float f = 0;
  widen(&f, at, 1, type);
  return f;
}

inline void put_value(std::byte* base, size_t i, DataType type, double v) {
  std::byte* at = base + i * size_of(type);
  switch (traits_of(type).kind) {
    case NumberKind::floating: return put_float(at, type, v);
    case NumberKind::integer: return visit_integer(type, [&]<class T>(T) { put<T>(at, v); });
    case NumberKind::boolean: return put<uint8_t>(at, v != 0);
    case NumberKind::complex:
      put_float(at, type, v);
      return put_float(at + part_size(type), type, 2 * v);
  }
}

inline double get_value(const std::byte* base, size_t i, DataType type) {
  const std::byte* at = base + i * size_of(type);
  switch (traits_of(type).kind) {
    case NumberKind::floating: return get_float(at, type);
    case NumberKind::integer: return visit_integer(type, [&]<class T>(T) { return get<T>(at); });
    case NumberKind::boolean: return get<uint8_t>(at);
    case NumberKind::complex:
      return get_float(at, type) + 1000 * get_float(at + part_size(type), type);
  }
  return 0;
}

// What get_value shows of a complex element that is v + 2v i.
inline double shown(DataType type, double v) { return is_complex(type) ? v + 2000 * v : v; }

// Where buffers that this thread makes lie: on the heap, in the arena, or, if they are large
// enough to be exposed, in pages of their own that are remapped at once. The latter two are read in
// place by peers.
enum class Placement { heap, arena, remapped };
inline thread_local Placement buffers_placed = Placement::heap;

template <class T>
struct PlacedAllocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  Placement place = buffers_placed;
  PlacedAllocator() = default;
  T* allocate(size_t n) {
    if (place == Placement::arena)
      return static_cast<T*>(Arena::of_process()->allocate(n * sizeof(T)));
    if (!mapped(n)) return static_cast<T*>(::operator new(n * sizeof(T)));
    void* p =
        ::mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    RemappedMemory::of_process()->remap(static_cast<std::byte*>(p) + 64,
                                        n * sizeof(T) - 128);  // its edges too
    return static_cast<T*>(p);
  }
  void deallocate(T* p, size_t n) {
    if (place == Placement::arena)
      Arena::of_process()->release(p);
    else if (mapped(n))
      ::munmap(p, n * sizeof(T));
    else
      ::operator delete(p);
  }
  bool operator==(const PlacedAllocator&) const = default;

 private:
  bool mapped(size_t n) const {
    return place == Placement::remapped && n * sizeof(T) > 16 << 10 && RemappedMemory::of_process();
  }
};

// A buffer with guards on both sides, so that a write outside is found.
class Guarded {
 public:
  Guarded(size_t count, DataType type)
      : type_(type), count_(count), bytes_(count * size_of(type) + 128, std::byte{0xA5}) {}
  std::byte* data() { return bytes_.data() + 64; }
  size_t count() const { return count_; }
  void set(size_t i, double v) { put_value(data(), i, type_, v); }
  double operator[](size_t i) { return get_value(data(), i, type_); }
  bool guards_intact() const {
    for (size_t i = 0; i < 64; ++i)
      if (bytes_[i] != std::byte{0xA5} || bytes_[bytes_.size() - 1 - i] != std::byte{0xA5})
        return false;
    return true;
  }

 private:
  DataType type_;
  size_t count_;
  std::vector<std::byte, PlacedAllocator<std::byte>> bytes_;
};

}  // namespace ringwood::testing
