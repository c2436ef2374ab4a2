#include "transports/shm/shm.h"

#include <algorithm>
#include <optional>

#include "transports/link_parts.h"
#include "transports/shm/lane_ends.h"
#include "transports/shm/segment.h"

namespace ringwood {
namespace {

// Below, a copy through the ring is cheaper than the two lines that lending costs.
constexpr size_t kLendFrom = 16 << 10;
// Of messages between users a short one must leave also while its receiver is busy with something
// else.
constexpr size_t kLendFromUsers = kLendFrom + 1;

struct Ends {
  int mine, theirs, channel;
};

class ShmLink final : public Link {
 public:
  ShmLink(const shm::Meeting& meeting, Ends e, int peer)
      : segment_(meeting.segment),
        alarm_(segment_->seat(e.theirs).armed, meeting.bells[peer]),
        fault_(peer, "shm"),
        outgoing_(segment_->lane(e.mine, e.theirs, e.channel)),
        arriving_(segment_->lane(e.theirs, e.mine, e.channel)),
        sender_(outgoing_, segment_->ring(e.mine, e.theirs, e.channel),
                segment_->geometry().ring_bytes_of(e.channel), {alarm_, gate_, edges_},
                e.channel == kPointToPointChannel ? kLendFromUsers : kLendFrom),
        receiver_(arriving_, segment_->ring(e.theirs, e.mine, e.channel),
                  segment_->geometry().ring_bytes_of(e.channel), {alarm_, gate_, edges_},
                  meeting.arenas[peer]) {
    if (e.channel != kPointToPointChannel && segment_->geometry().has_mail())
      mailbox_.emplace(segment_->mail(e.mine, e.theirs, e.channel),
                       segment_->mail(e.theirs, e.mine, e.channel), alarm_,
                       arriving_.writer.closed);
  }
  ~ShmLink() override {
    if (!segment_->mapped_here()) return;
    if (!sender_.idle()) sender_.revoke(arriving_.writer.answering);
    sender_.close();
  }

  Status post_send(const void* data, size_t bytes) override { return send(data, bytes, 0); }
  Status post_offer(void* data, size_t bytes, uint64_t answer) override {
    return send(data, bytes, answer + 1);
  }

  std::byte* answer_place(uint64_t number) override {
    if (unusable(1) || !receiver_.shows()) return nullptr;
    return receiver_.answer_place(number);
  }

  bool begin_answer() override {
    outgoing_.writer.answering.store(1, std::memory_order_relaxed);
    full_fence();  // pairs with Sender::revoke
    if (!gate_.aborted() && arriving_.revocation.revoked.load(std::memory_order_acquire) == 0)
      return true;
    end_answer();
    return false;
  }
  void end_answer() override { outgoing_.writer.answering.store(0, std::memory_order_release); }

  Status post_answered(size_t bytes) override {
    if (unusable(bytes)) [[unlikely]]
      return why(bytes);
    if (!sender_.post_placed(bytes)) [[unlikely]]
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
    if (shown > 0 && !receiver_.take(std::min(bytes, shown))) (void)taken_back();
  }

  Status poll(Completions& completions) override {
    Status status = move();
    completions = {sender_.finished(), receiver_.finished()};
    return status;
  }

  Mailbox* mailbox() override { return mailbox_ ? &*mailbox_ : nullptr; }

  void abort() noexcept override {
    gate_.abort();
    if (segment_->mapped_here()) sender_.revoke(arriving_.writer.answering);
  }

 private:
  bool unusable(size_t bytes) const { return gate_.aborted() || fault_ || bytes == 0; }
  Status why(size_t bytes) const {
    if (fault_) return fault_.status();
    return gate_.aborted() || bytes > 0 ? fault_.aborted() : fault_.empty_message();
  }
  Status send(const void* data, size_t bytes, uint64_t answer) {
    if (unusable(bytes)) [[unlikely]]
      return why(bytes);
    if (!sender_.post(data, bytes, answer)) [[unlikely]]
      return disbelieve();
    return {};
  }
  Status taken_back() {
    return fault_.fail(ErrorCode::peer_lost,
                       "the peer gave up the operation while its memory was being read");
  }
  Status disbelieve() {
    if (receiver_.taken_back()) return taken_back();
    return fault_.fail(ErrorCode::internal,
                       "the peer wrote an impossible position into the shared memory");
  }

  Status move() {
    if (unusable(1)) [[unlikely]]
      return why(1);
    if (!sender_.advance() || !receiver_.advance() || receiver_.taken_back()) [[unlikely]]
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
  shm::AwaitedEdges edges_;
  LinkFault fault_;
  shm::Lane& outgoing_;
  shm::Lane& arriving_;
  shm::Sender sender_;
  shm::Receiver receiver_;
  std::optional<Mailbox> mailbox_;
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
        links[channel][peer] =
            std::make_unique<ShmLink>(meeting, Ends{mine, meeting.seats[peer], channel}, peer);
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
