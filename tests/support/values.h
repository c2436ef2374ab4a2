// Buffers of any data type, filled from and read as doubles. Complex elements hold v + 2v i.
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

inline void put_value(std::byte* base, size_t i, DataType type, double v) {
  std::byte* at = base + i * size_of(type);
  switch (type) {
    case DataType::float64: return put<double>(at, v);
    case DataType::float32: return put<float>(at, v);
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2: {
      const float f = static_cast<float>(v);
      return narrow(at, &f, 1, type);
    }
    case DataType::int8: return put<int8_t>(at, v);
    case DataType::int16: return put<int16_t>(at, v);
    case DataType::int32: return put<int32_t>(at, v);
    case DataType::int64: return put<int64_t>(at, v);
    case DataType::uint8: return put<uint8_t>(at, v);
    case DataType::bool8: return put<uint8_t>(at, v != 0);
    case DataType::complex64: put<float>(at, v); return put<float>(at + 4, 2 * v);
    case DataType::complex128: put<double>(at, v); return put<double>(at + 8, 2 * v);
  }
}

inline double get_value(const std::byte* base, size_t i, DataType type) {
  const std::byte* at = base + i * size_of(type);
  switch (type) {
    case DataType::float64: return get<double>(at);
    case DataType::float32: return get<float>(at);
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2: {
      float f = 0;
      widen(&f, at, 1, type);
      return f;
    }
    case DataType::int8: return get<int8_t>(at);
    case DataType::int16: return get<int16_t>(at);
    case DataType::int32: return get<int32_t>(at);
    case DataType::int64: return static_cast<double>(get<int64_t>(at));
    case DataType::uint8:
    case DataType::bool8: return get<uint8_t>(at);
    case DataType::complex64: return get<float>(at) + 1000 * get<float>(at + 4);
    case DataType::complex128: return get<double>(at) + 1000 * get<double>(at + 8);
  }
  return 0;
}

// What get_value shows of a complex element that holds v + 2v i.
inline double shown(DataType type, double v) {
  return type == DataType::complex64 || type == DataType::complex128 ? v + 2000 * v : v;
}

// Where buffers that this thread makes lie: on the heap, in the arena, or, if they are large enough
// to be exposed, in pages of their own that are remapped at once. The latter two are read in place by
// peers.
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
