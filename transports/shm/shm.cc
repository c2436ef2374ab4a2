#include "transports/shm/shm.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "transports/channels.h"
#include "transports/link_parts.h"
#include "transports/shm/direction_ends.h"
#include "transports/shm/shared_region.h"

namespace ringwood {
namespace {

// A short message between users must be sent even while its receiver is busy with something else.
constexpr size_t kZeroCopyFromUsers = kShmZeroCopyFrom + 1;

struct Ends {
  int mine, theirs, channel;
};

class ShmLink final : public Link {
 public:
  ShmLink(const shm::Bootstrap& bootstrap, Ends e, int peer)
      : region_(bootstrap.region),
        alarm_(region_->member(e.theirs).armed, bootstrap.bells[peer]),
        fault_(peer, "shm"),
        outgoing_(region_->direction(e.mine, e.theirs, e.channel)),
        arriving_(region_->direction(e.theirs, e.mine, e.channel)),
        sender_(outgoing_, region_->ring(e.mine, e.theirs, e.channel),
                region_->geometry().ring_bytes_of(e.channel), {alarm_, gate_, edges_},
                e.channel == kPointToPointChannel ? kZeroCopyFromUsers : kShmZeroCopyFrom),
        receiver_(arriving_, region_->ring(e.theirs, e.mine, e.channel),
                  region_->geometry().ring_bytes_of(e.channel), {alarm_, gate_, edges_},
                  bootstrap.arenas[peer]) {
    if (e.channel != kPointToPointChannel && region_->geometry().has_eager_slots())
      eager_channel_.emplace(region_->eager_slots(e.mine, e.theirs, e.channel),
                             region_->eager_slots(e.theirs, e.mine, e.channel), alarm_,
                             arriving_.writer.closed);
  }
  ~ShmLink() override {
    if (!region_->mapped_here()) return;
    if (!sender_.idle()) sender_.revoke(arriving_.writer.putting);
    sender_.close();
  }

  Status post_send(const void* data, size_t bytes) override { return send(data, bytes, 0); }
  Status post_exposed(void* data, size_t bytes, uint64_t put) override {
    return send(data, bytes, put + 1);
  }

  std::byte* put_place(uint64_t number) override {
    if (fault_.refuses(gate_, 1) || !receiver_.shows()) return nullptr;
    return receiver_.put_place(number);
  }

  bool begin_put() override {
    outgoing_.writer.putting.store(1, std::memory_order_relaxed);
    full_fence();  // pairs with Sender::revoke
    const bool given_up = arriving_.revocation.revoked.load(std::memory_order_acquire) != 0;
    if (!gate_.aborted() && !given_up) return true;
    end_put();
    if (given_up) (void)taken_back();
    return false;
  }
  void end_put() override { outgoing_.writer.putting.store(0, std::memory_order_release); }

  Status post_put(size_t bytes) override {
    if (fault_.refuses(gate_, bytes)) [[unlikely]]
      return fault_.why(gate_, bytes);
    if (!sender_.post_placed(bytes)) [[unlikely]]
      return disbelieve();
    return {};
  }

  Status post_recv(void* data, size_t bytes) override {
    if (fault_.refuses(gate_, bytes)) [[unlikely]]
      return fault_.why(gate_, bytes);
    receiver_.post(data, bytes);
    return {};
  }

  Status post_incoming(size_t bytes) override { return post_recv(nullptr, bytes); }

  std::span<const std::byte> incoming() override {
    if (fault_.refuses(gate_, 1) || !receiver_.shows()) return {};
    bool plausible = true;
    const std::span<const std::byte> piece = receiver_.arrived(plausible);
    if (!plausible) (void)disbelieve();
    return piece;
  }

  void consume(size_t bytes) override {
    const size_t there = incoming().size();
    if (there > 0 && !receiver_.take(std::min(bytes, there))) (void)taken_back();
  }

  Status poll(Completions& completions) override {
    Status status = move();
    completions = {sender_.finished(), receiver_.finished(), sender_.more() || receiver_.more()};
    return status;
  }

  EagerChannel* eager_channel() override { return eager_channel_ ? &*eager_channel_ : nullptr; }

  void abort() noexcept override {
    gate_.abort();
    if (region_->mapped_here()) sender_.revoke(arriving_.writer.putting);
  }

 private:
  Status send(const void* data, size_t bytes, uint64_t put) {
    if (fault_.refuses(gate_, bytes)) [[unlikely]]
      return fault_.why(gate_, bytes);
    if (!sender_.post(data, bytes, put)) [[unlikely]]
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
    if (fault_.refuses(gate_, 1)) [[unlikely]]
      return fault_.why(gate_, 1);
    if (!sender_.advance() || !receiver_.advance() || receiver_.taken_back()) [[unlikely]]
      return disbelieve();
    if ((!sender_.idle() || !receiver_.idle()) && receiver_.peer_end() != kLinkOpen) [[unlikely]]
      return closed();
    return {};
  }

  // What was sent before the end still arrives, and what the peer has read by then is finished: it
  // may have ended since this rank looked.
  Status closed() {
    constexpr size_t kAll = std::numeric_limits<size_t>::max();
    if (!sender_.advance(kAll) || !receiver_.advance(kAll)) return disbelieve();
    const bool waits = !receiver_.idle() && incoming().empty();
    if (!waits && sender_.idle()) return {};
    return fault_.fail(ErrorCode::peer_lost, to_string(receiver_.peer_end()));
  }

  const std::shared_ptr<shm::SharedRegion> region_;
  Alarm alarm_;
  AbortGate gate_;
  shm::AwaitedEdges edges_;
  LinkFault fault_;
  shm::Direction& outgoing_;
  shm::Direction& arriving_;
  shm::Sender sender_;
  shm::Receiver receiver_;
  std::optional<EagerChannel> eager_channel_;
};

class Shm final : public Transport {
 public:
  LinkTable connect(const Group& group, const std::vector<bool>& wanted, int channels) override {
    LinkTable links = no_links(group, channels);
    shm::Bootstrap bootstrap = shm::bootstrap_region(group, wanted, channels);
    if (!bootstrap.region) return links;
    const int mine = bootstrap.members[group.rank()];
    for (int peer = 0; peer < group.size(); ++peer) {
      if (!bootstrap.bells[peer]) continue;
      for (int channel = 0; channel < channels; ++channel) {
        links[channel][peer] = std::make_unique<ShmLink>(
            bootstrap, Ends{mine, bootstrap.members[peer], channel}, peer);
      }
    }
    region_ = std::move(bootstrap.region);
    process_ends_ = std::move(bootstrap.process_ends);
    member_ = mine;
    return links;
  }

  void arm() noexcept override {
    if (!region_) return;
    look_for_ends();
    region_->member(member_).armed.store(1, std::memory_order_relaxed);
    full_fence();  // pairs with Alarm::wake
  }
  void disarm() noexcept override {
    if (region_) region_->member(member_).armed.store(0, std::memory_order_relaxed);
  }
  void look_for_ends() noexcept override {
    if (!process_ends_) return;
    for (int member; (member = process_ends_->next()) >= 0;) close_for(member);
  }

 private:
  // In place of a rank whose process has ended, so that its links need look at nothing else. What
  // it wrote itself, when it left in good order, stays.
  void close_for(int member) noexcept {
    for (int channel = 0; channel < static_cast<int>(region_->geometry().channels); ++channel) {
      uint32_t open = kLinkOpen;
      region_->direction(member, member_, channel)
          .writer.closed.compare_exchange_strong(open, kProcessEnded);
    }
  }

  std::shared_ptr<shm::SharedRegion> region_;
  std::unique_ptr<shm::ProcessEnds> process_ends_;
  int member_ = -1;
};

}  // namespace

std::unique_ptr<Transport> make_shm() { return std::make_unique<Shm>(); }

size_t shm::ring_bytes(size_t members, int channels, size_t wanted) {
  return make_geometry(members, channels, wanted).ring_bytes;
}

}  // namespace ringwood
