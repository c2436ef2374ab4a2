// A value that one thread posts often and others read rarely: a sequence lock (Lameter, "Effective
// synchronization on Linux/NUMA systems", 2005; the atomics as in Boehm, "Can seqlocks get along
// with programming language memory models?", MSPC 2012).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ringwood {

// post(): one thread at a time; never waits. read(): any thread; repeats while a post is
// in progress.
template <class T>
class SeqLock {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);

 public:
  void post(const T& value) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof value);
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    // Release on every word instead of a fence, which the thread sanitizer does not know.
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }
  T read() const {
    std::array<uint64_t, kWords> words;
    while (true) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
    }
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return value;
  }

 private:
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  std::atomic<uint64_t> version_{0};
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace ringwood
