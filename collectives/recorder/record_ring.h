// The last records of a kind, in a ring that one thread writes and others read without a lock: a
// slot is a sequence lock (transports/base/seq_lock.h) whose version is the number of its record.
//
// The memory is mapped as a whole and is the kernel's until it is first written. (calloc() would
// take it from the heap, and clear it, in a program that has freed a large block before.)
//
// Thread safety: add() by one thread at a time; never waits. The rest by any thread.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>

namespace ringwood {

template <class T, size_t kSlots>
class RecordRing final {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
  static_assert((kSlots & (kSlots - 1)) == 0);

 public:
  RecordRing() : slots_(map()) {}

  void add(const T& record) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &record, sizeof record);
    const uint64_t number = written_.load(std::memory_order_relaxed);
    uint64_t* const slot = at(number);
    word(slot[0]).store(0, std::memory_order_relaxed);
    // Release on every word, as in seq_lock.h.
    for (size_t i = 0; i < kWords; ++i)
      word(slot[i + 1]).store(words[i], std::memory_order_release);
    word(slot[0]).store(number + 1, std::memory_order_release);
    written_.store(number + 1, std::memory_order_release);
  }
  // The number of the next record. Records [oldest(), written()) may be read.
  uint64_t written() const { return written_.load(std::memory_order_acquire); }
  uint64_t oldest() const {
    const uint64_t all = written();
    return all < kSlots ? 0 : all - kSlots;
  }
  // Nothing: it is not written yet, or no more there.
  std::optional<T> read(uint64_t number) const {
    std::array<uint64_t, kWords> words;
    uint64_t* const slot = at(number);
    if (word(slot[0]).load(std::memory_order_acquire) != number + 1) return std::nullopt;
    for (size_t i = 0; i < kWords; ++i)
      words[i] = word(slot[i + 1]).load(std::memory_order_acquire);
    if (word(slot[0]).load(std::memory_order_relaxed) != number + 1) return std::nullopt;
    T record;
    std::memcpy(static_cast<void*>(&record), words.data(), sizeof record);
    return record;
  }

 private:
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t), kSlotWords = kWords + 1;
  static constexpr size_t kBytes = kSlots * kSlotWords * sizeof(uint64_t);
  struct Unmap {
    void operator()(uint64_t* memory) const { ::munmap(memory, kBytes); }
  };

  static uint64_t* map() {
    void* const memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return static_cast<uint64_t*>(memory);
  }

  static std::atomic_ref<uint64_t> word(uint64_t& value) { return std::atomic_ref(value); }
  uint64_t* at(uint64_t number) const { return slots_.get() + number % kSlots * kSlotWords; }

  const std::unique_ptr<uint64_t, Unmap> slots_;
  std::atomic<uint64_t> written_{0};
};

}  // namespace ringwood
