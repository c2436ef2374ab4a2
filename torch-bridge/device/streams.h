// The streams on which calls with tensors of a device are made.
//
// A call with asyncOp == false is made on the caller's current stream. Others are made on a stream
// of the group, which waits for what the caller's has been given: one for collectives, one for
// sends, and four for receives. A receive holds its stream back until its data is there. So it
// never holds back a send; it does hold back later receives from the same rank, and from those
// whose rank modulo four is the same. More streams are not taken: one that waits may occupy one of
// the few hardware queues of a device.
//
// Torch's streams come from a pool and are handed out again and again. Those of a group are no
// other group's, as long as there are enough.
//
// Thread safety: all functions. Nothing of a device is touched before the first of().
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <tuple>
#include <unordered_set>

namespace ringwood {

// What a stream is taken for. `from`: the rank; negative: any.
struct StreamUse {
  enum class Kind { collective, send, receive } kind = Kind::collective;
  int from = 0;
};

class DeviceStreams final {
 public:
  DeviceStreams() = default;
  DeviceStreams(const DeviceStreams&) = delete;
  DeviceStreams& operator=(const DeviceStreams&) = delete;
  ~DeviceStreams() {
    const std::lock_guard lock(taken().mutex);
    for (const auto& [key, stream] : streams_) taken().streams.erase(stream);
  }
  c10::Stream of(c10::Device device, StreamUse use) {
    constexpr int kReceives = 4;
    const int number =
        use.kind == StreamUse::Kind::receive ? (use.from + kReceives) % kReceives : 0;
    const Key key{device.type(), device.index(), use.kind, number};
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(key);
    if (found != streams_.end()) return found->second;
    return streams_.emplace(key, take(device)).first->second;
  }

 private:
  struct Taken {
    std::mutex mutex;
    std::unordered_set<c10::Stream> streams;  // of all groups of the process
  };
  static Taken& taken() {
    static auto* const made = new Taken;
    return *made;
  }
  static c10::Stream take(c10::Device device) {
    constexpr bool kHighPriority = true;  // peers wait for what is done there
    constexpr int kPool = 32;             // that many are in torch's pool
    const c10::impl::VirtualGuardImpl guard(device.type());
    const std::lock_guard lock(taken().mutex);
    c10::Stream stream = guard.getStreamFromGlobalPool(device, kHighPriority);
    for (int i = 1; i < kPool && taken().streams.contains(stream); ++i)
      stream = guard.getStreamFromGlobalPool(device, kHighPriority);
    taken().streams.insert(stream);
    return stream;
  }
  using Key = std::tuple<c10::DeviceType, c10::DeviceIndex, StreamUse::Kind, int>;
  std::mutex mutex_;
  std::map<Key, c10::Stream> streams_;
};

}  // namespace ringwood
