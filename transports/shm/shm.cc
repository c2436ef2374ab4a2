#include "transports/shm/shm.h"

#include <algorithm>
#include <cstring>

#include "transports/link_parts.h"
#include "transports/shm/segment.h"

namespace ringwood {
namespace {

using shm::kLine;
using shm::kSlotReport;
using shm::kSlots;
using shm::kSmallBytes;

// Large messages are published in pieces, so that both ends copy at the same time.
constexpr size_t kPieceBytes = size_t{128} << 10;

uint64_t line_up(uint64_t bytes) { return (bytes + kLine - 1) & ~uint64_t{kLine - 1}; }

struct Message {
  std::byte* data;  // null: to be shown by incoming()
  size_t bytes;
  size_t done;
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

// The sending end of a lane.
class Sender {
 public:
  Sender(shm::Lane& lane, std::byte* ring, uint64_t ring_bytes, Alarm& alarm, AbortGate& gate)
      : lane_(lane), ring_(ring), ring_bytes_(ring_bytes), alarm_(alarm), gate_(gate) {}

  bool idle() const { return queue_.empty(); }
  uint64_t finished() const { return finished_; }

  // False: the peer has written an impossible counter.
  bool post(const void* data, size_t bytes) {
    const bool first = queue_.empty();
    queue_.push({static_cast<std::byte*>(const_cast<void*>(data)), bytes, 0});
    return !first || advance();
  }

  bool advance() {
    while (!queue_.empty()) {
      Message& message = queue_.front();
      bool believable = true;
      const bool moved = message.bytes <= kSmallBytes ? put_small(message, believable)
                                                      : put_piece(message, believable);
      if (!moved) return believable;
      if (message.done == message.bytes) {
        queue_.pop();
        ++finished_;
      }
    }
    return true;
  }

  void close() {
    lane_.writer.closed.store(1, std::memory_order_release);
    alarm_.wake();
  }

 private:
  bool put_small(Message& message, bool& believable) {
    if (slots_written_ - slots_read_ == kSlots) {
      const uint64_t read = lane_.reader.slots_read.load(std::memory_order_acquire);
      believable = read >= slots_read_ && read <= slots_written_;
      if (!believable || read == slots_read_) return false;
      slots_read_ = read;
    }
    AbortGate::Pass pass(gate_);
    if (!pass) return false;
    shm::Slot& slot = lane_.slots[slots_written_ % kSlots];
    std::memcpy(slot.payload, message.data, message.bytes);
    slot.stamp.store(++slots_written_, std::memory_order_release);
    message.done = message.bytes;
    alarm_.wake();
    return true;
  }

  bool put_piece(Message& message, bool& believable) {
    if (head_ - tail_ == ring_bytes_) {
      const uint64_t tail = lane_.reader.tail.load(std::memory_order_acquire);
      believable = tail >= tail_ && tail <= head_ && tail % kLine == 0;
      if (!believable || tail == tail_) return false;
      tail_ = tail;
    }
    AbortGate::Pass pass(gate_);
    if (!pass) return false;
    const uint64_t at = head_ & (ring_bytes_ - 1);
    const uint64_t room = std::min(ring_bytes_ - (head_ - tail_), ring_bytes_ - at);
    const size_t bytes =
        std::min({message.bytes - message.done, static_cast<size_t>(room), kPieceBytes});
    std::memcpy(ring_ + at, message.data + message.done, bytes);
    message.done += bytes;
    head_ += line_up(bytes);  // only the end of a message is no multiple of a line
    lane_.writer.head.store(head_, std::memory_order_release);
    alarm_.wake();
    return true;
  }

  shm::Lane& lane_;
  std::byte* const ring_;
  const uint64_t ring_bytes_;
  Alarm& alarm_;
  AbortGate& gate_;
  Fifo<Message> queue_;
  uint64_t finished_ = 0;
  uint64_t head_ = 0, tail_ = 0;  // our own, and the peer's as last seen and believed
  uint64_t slots_written_ = 0, slots_read_ = 0;
};

// The receiving end of a lane.
class Receiver {
 public:
  Receiver(shm::Lane& lane, std::byte* ring, uint64_t ring_bytes, Alarm& alarm, AbortGate& gate)
      : lane_(lane), ring_(ring), ring_bytes_(ring_bytes), alarm_(alarm), gate_(gate) {}

  bool idle() const { return queue_.empty(); }
  uint64_t finished() const { return finished_; }
  bool peer_closed() const { return lane_.writer.closed.load(std::memory_order_acquire) != 0; }
  void post(void* data, size_t bytes) { queue_.push({static_cast<std::byte*>(data), bytes, 0}); }

  // False: the peer has written an impossible counter.
  bool advance() {
    bool believable = true;
    while (!queue_.empty() && queue_.front().data != nullptr) {
      const std::span<const std::byte> piece = arrived(believable);
      if (piece.empty()) break;
      AbortGate::Pass pass(gate_);
      if (!pass) break;
      Message& message = queue_.front();
      const size_t bytes = std::min(piece.size(), kPieceBytes);
      std::memcpy(message.data + message.done, piece.data(), bytes);
      take(bytes);
    }
    return believable;
  }

  // What has arrived, in one piece, of the first message.
  std::span<const std::byte> arrived(bool& believable) {
    Message& message = queue_.front();
    const size_t rest = message.bytes - message.done;
    if (message.bytes <= kSmallBytes) {
      const shm::Slot& slot = lane_.slots[slots_ % kSlots];
      if (slot.stamp.load(std::memory_order_acquire) != slots_ + 1) return {};
      return {slot.payload + message.done, rest};
    }
    if (head_ <= read_) {
      const uint64_t head = lane_.writer.head.load(std::memory_order_acquire);
      believable = head >= head_ && head - read_floor() <= ring_bytes_ && head % kLine == 0;
      if (!believable || head == head_) return {};
      head_ = head;
    }
    const uint64_t at = read_ & (ring_bytes_ - 1);
    return {ring_ + at, std::min({rest, static_cast<size_t>(head_ - read_),
                                  static_cast<size_t>(ring_bytes_ - at)})};
  }

  bool shows() { return !queue_.empty() && queue_.front().data == nullptr; }

  // Gives back `bytes` of what has arrived.
  void take(size_t bytes) {
    Message& message = queue_.front();
    message.done += bytes;
    const bool last = message.done == message.bytes;
    if (message.bytes <= kSmallBytes) {
      if (last && ++slots_ % kSlotReport == 0) {
        lane_.reader.slots_read.store(slots_, std::memory_order_release);
        alarm_.wake();
      }
    } else {
      read_ = last ? line_up(read_ + bytes) : read_ + bytes;
      if (read_floor() - reported_ >= ring_bytes_ / 8) {
        reported_ = read_floor();
        lane_.reader.tail.store(reported_, std::memory_order_release);
        alarm_.wake();
      }
    }
    if (last) {
      queue_.pop();
      ++finished_;
    }
  }

 private:
  uint64_t read_floor() const { return read_ & ~uint64_t{kLine - 1}; }

  shm::Lane& lane_;
  std::byte* const ring_;
  const uint64_t ring_bytes_;
  Alarm& alarm_;
  AbortGate& gate_;
  Fifo<Message> queue_;
  uint64_t finished_ = 0;
  uint64_t slots_ = 0;  // small messages read
  uint64_t head_ = 0, read_ = 0,
           reported_ = 0;  // the peer's as last seen; ours; ours as the peer knows it
};

struct Ends {
  int mine, theirs, channel;
};

class ShmLink final : public Link {
 public:
  ShmLink(std::shared_ptr<shm::Segment> segment, Ends e, std::shared_ptr<Doorbell> bell, int peer)
      : segment_(std::move(segment)),
        alarm_(segment_->seat(e.theirs).armed, std::move(bell)),
        fault_(peer, "shm"),
        sender_(segment_->lane(e.mine, e.theirs, e.channel),
                segment_->ring(e.mine, e.theirs, e.channel),
                segment_->geometry().ring_bytes_of(e.channel), alarm_, gate_),
        receiver_(segment_->lane(e.theirs, e.mine, e.channel),
                  segment_->ring(e.theirs, e.mine, e.channel),
                  segment_->geometry().ring_bytes_of(e.channel), alarm_, gate_) {}
  ~ShmLink() override {
    if (segment_->mapped_here()) sender_.close();
  }

  Status post_send(const void* data, size_t bytes) override {
    if (unusable(bytes)) [[unlikely]]
      return why(bytes);
    if (!sender_.post(data, bytes)) [[unlikely]]
      return disbelieve();
    return {};
  }

  Status post_recv(void* data, size_t bytes) override {
    if (unusable(bytes)) [[unlikely]]
      return why(bytes);
    receiver_.post(data, bytes);
    return {};
  }

  Status post_incoming(size_t bytes) override { return post_recv(nullptr, bytes); }

  std::span<const std::byte> incoming() override {
    if (unusable(1) || !receiver_.shows()) return {};
    bool believable = true;
    const std::span<const std::byte> piece = receiver_.arrived(believable);
    if (!believable) (void)disbelieve();
    return piece;
  }

  void consume(size_t bytes) override {
    const size_t shown = incoming().size();
    if (shown > 0) receiver_.take(std::min(bytes, shown));
  }

  Status poll(Completions& completions) override {
    Status status = move();
    completions = {sender_.finished(), receiver_.finished()};
    return status;
  }

  void abort() noexcept override { gate_.abort(); }

 private:
  bool unusable(size_t bytes) const { return gate_.aborted() || fault_ || bytes == 0; }
  Status why(size_t bytes) const {
    if (fault_) return fault_.status();
    return gate_.aborted() || bytes > 0 ? fault_.aborted() : fault_.empty_message();
  }
  Status disbelieve() {
    return fault_.fail(ErrorCode::internal,
                       "the peer wrote an impossible position into the shared memory");
  }

  Status move() {
    if (unusable(1)) [[unlikely]]
      return why(1);
    if (!sender_.advance() || !receiver_.advance()) [[unlikely]]
      return disbelieve();
    if ((!sender_.idle() || !receiver_.idle()) && receiver_.peer_closed()) [[unlikely]]
      return closed();
    return {};
  }

  // What was sent before the end still arrives.
  Status closed() {
    if (!receiver_.advance()) return disbelieve();
    const bool waits = !receiver_.idle() && incoming().empty();
    if (!waits && sender_.idle()) return {};
    return fault_.fail(ErrorCode::peer_lost, "the peer closed its end of the link");
  }

  const std::shared_ptr<shm::Segment> segment_;
  Alarm alarm_;
  AbortGate gate_;
  LinkFault fault_;
  Sender sender_;
  Receiver receiver_;
};

class Shm final : public Transport {
 public:
  std::vector<std::vector<std::unique_ptr<Link>>> connect(const Group& group,
                                                          const std::vector<bool>& wanted,
                                                          int channels) override {
    std::vector<std::vector<std::unique_ptr<Link>>> links(channels);
    for (auto& channel : links) channel.resize(group.size());
    shm::Meeting meeting = shm::meet(group, wanted, channels);
    if (!meeting.segment) return links;
    const int mine = meeting.seats[group.rank()];
    for (int peer = 0; peer < group.size(); ++peer) {
      if (!meeting.bells[peer]) continue;
      for (int channel = 0; channel < channels; ++channel) {
        links[channel][peer] = std::make_unique<ShmLink>(
            meeting.segment, Ends{mine, meeting.seats[peer], channel}, meeting.bells[peer], peer);
      }
    }
    segment_ = std::move(meeting.segment);
    seat_ = mine;
    return links;
  }

  void arm() noexcept override {
    if (!segment_) return;
    segment_->seat(seat_).armed.store(1, std::memory_order_relaxed);
    full_fence();  // pairs with Alarm::wake
  }
  void disarm() noexcept override {
    if (segment_) segment_->seat(seat_).armed.store(0, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<shm::Segment> segment_;
  int seat_ = -1;
};

}  // namespace

std::unique_ptr<Transport> make_shm() { return std::make_unique<Shm>(); }

}  // namespace ringwood
