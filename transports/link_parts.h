// Parts of links, for the authors of transports only.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transports/base/error.h"
#include "transports/base/owned_fd.h"

namespace ringwood {

// A queue that allocates only while it grows. Not thread safe.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == last_; }
  size_t size() const { return last_ - first_; }
  T& front() { return items_[first_ & mask_]; }
  T& operator[](size_t i) { return items_[(first_ + i) & mask_]; }
  void pop() { ++first_; }
  void push(const T& item) {
    if (size() == items_.size()) grow();
    items_[last_++ & mask_] = item;
  }

 private:
  void grow() {
    std::vector<T> larger(std::max<size_t>(16, items_.size() * 2));
    size_t n = size();
    for (size_t i = 0; i < n; ++i) larger[i] = (*this)[i];
    items_.swap(larger);
    mask_ = items_.size() - 1;
    first_ = 0;
    last_ = n;
  }
  std::vector<T> items_;
  size_t mask_ = 0, first_ = 0, last_ = 0;
};

// Makes all earlier writes visible to others before any later read. (std::atomic_thread_fence is
// the same instruction, but the thread sanitizer's compiler warns of it.)
inline void full_fence() { __sync_synchronize(); }

// Fetches a line that another core has read last, to be written soon.
inline void fetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// Copies into memory that another core has read last. The string instruction writes whole lines
// without fetching their content, which a loop of stores does first; starting it costs about as
// much as copying a kilobyte.
inline void copy_across(std::byte* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= 1024) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

// Implements abort()'s guarantee. The link's user holds an Access while it touches the memory of a
// message; abort() returns when no Access is held and none can be obtained. Costs one locked
// instruction per Access.
class AbortGate {
 public:
  class Access {
   public:
    explicit Access(AbortGate& gate) : gate_(gate) {
      gate_.inside_.store(true, std::memory_order_seq_cst);
      open_ = !gate_.aborted_.load(std::memory_order_seq_cst);
    }
    ~Access() { gate_.inside_.store(false, std::memory_order_release); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    explicit operator bool() const { return open_; }

   private:
    AbortGate& gate_;
    bool open_;
  };
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  void abort() noexcept {
    aborted_.store(true, std::memory_order_seq_cst);
    while (inside_.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }

 private:
  std::atomic<bool> aborted_{false};
  std::atomic<bool> inside_{false};
};

// The first error of a link, which is final.
class LinkFault {
 public:
  LinkFault(int peer, const char* transport) : peer_(peer), transport_(transport) {}
  explicit operator bool() const { return error_ != nullptr; }
  Status status() const { return error_ ? Status(Error(*error_)) : Status(); }
  void set(ErrorCode code, std::string cause) {
    if (!error_) error_ = std::make_unique<Error>(make(code, std::move(cause)));
  }
  Status fail(ErrorCode code, std::string cause) {
    set(code, std::move(cause));
    return status();
  }
  // Whether a call must be refused that brings a message of so many bytes, and its error.
  bool refuses(const AbortGate& gate, size_t bytes) const {
    return gate.aborted() || error_ || bytes == 0;
  }
  Status why(const AbortGate& gate, size_t bytes) const {
    if (error_) return status();
    return gate.aborted() || bytes > 0 ? aborted() : empty_message();
  }
  Status aborted() const { return make(ErrorCode::aborted, "the link was aborted by this rank"); }
  Status empty_message() const {
    return make(ErrorCode::internal, "a message must have at least one byte");
  }

 private:
  Error make(ErrorCode code, std::string cause) const {
    Error error(code, std::move(cause));
    error.peer = peer_;
    error.transport = transport_;
    return error;
  }
  int peer_;
  const char* transport_;
  std::unique_ptr<Error> error_;
};

// Whether a peer may still write into memory that it shares, as a word in that memory says it.
enum LinkEnd : uint32_t {
  kLinkOpen = 0,
  kLinkClosed = 1,    // stored by the peer
  kProcessEnded = 2,  // stored by the rank that has noticed it
};
// Precondition: it is not open. Any other word is the peer's, too.
inline const char* to_string(LinkEnd end) {
  return end == kProcessEnded ? "the peer's process has ended"
                              : "the peer closed its end of the link";
}

// Rings a wait set of this or another process through a copy of its eventfd.
class Doorbell {
 public:
  explicit Doorbell(OwnedFd fd) : fd_(std::move(fd)) {}
  void ring() const noexcept { (void)!::eventfd_write(fd_.get(), 1); }

 private:
  OwnedFd fd_;
};

// Wakes the peer if it sleeps. What was published before is visible to a peer that arms after.
class Alarm {
 public:
  Alarm(std::atomic<uint32_t>& armed, std::shared_ptr<Doorbell> bell)
      : armed_(armed), bell_(std::move(bell)) {}
  void wake() {
    full_fence();
    if (armed_.load(std::memory_order_relaxed) != 0 && armed_.exchange(0) != 0) bell_->ring();
  }

 private:
  std::atomic<uint32_t>& armed_;
  const std::shared_ptr<Doorbell> bell_;
};

}  // namespace ringwood
