#include "transports/tcp/tcp.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "transports/descriptors.h"
#include "transports/pairs.h"
#include "transports/tcp/stream.h"
#include "transports/wait_set.h"

namespace ringwood {
namespace {

using tcp::Outcome;
using tcp::Piece;
using tcp::Stream;

// With several sockets, messages are dealt out to them in stripes of this size...
constexpr size_t kStripeBytes = size_t{256} << 10;
// ... but small ones all use the first, where they share system calls.
constexpr size_t kUnstripedBytes = size_t{64} << 10;
// Turns in one poll(); a peer as fast as we would otherwise never let us go.
constexpr int kTurns = 32;

// Cuts the messages of one direction into pieces, in the same way at both ends.
class Dealer {
 public:
  explicit Dealer(size_t sockets) : sockets_(sockets) {}
  // Calls piece(socket, offset, bytes); returns {number of pieces, socket of the first}.
  template <class Do>
  std::pair<uint32_t, uint32_t> deal(size_t bytes, Do&& piece) {
    if (sockets_ == 1 || bytes <= kUnstripedBytes) {
      piece(0, 0, bytes);
      return {1, 0};
    }
    const uint32_t first = static_cast<uint32_t>(next_ % sockets_);
    uint32_t count = 0;
    for (size_t at = 0; at < bytes; at += kStripeBytes, ++count) {
      piece(next_++ % sockets_, at, std::min(kStripeBytes, bytes - at));
    }
    return {count, first};
  }

 private:
  const size_t sockets_;
  uint64_t next_ = 0;
};

// Which messages of one direction are finished; pieces of several may finish in any order.
class Ledger {
 public:
  struct Entry {
    size_t bytes;
    uint32_t pieces, first_socket;
    bool shown;
    size_t consumed = 0;
  };
  bool idle() const { return open_.empty(); }
  uint64_t finished() const { return finished_; }
  uint64_t next() const { return finished_ + open_.size(); }
  Entry& front() { return open_.front(); }
  void open(const Entry& entry) { open_.push(entry); }
  void finish(Fifo<uint64_t>& messages) {
    for (; !messages.empty(); messages.pop()) finish_piece(messages.front());
  }
  void finish_piece(uint64_t message) {
    --open_[message - finished_].pieces;
    for (; !open_.empty() && open_.front().pieces == 0; open_.pop()) ++finished_;
  }

 private:
  Fifo<Entry> open_;
  uint64_t finished_ = 0;
};

class TcpLink final : public Link {
 public:
  TcpLink(std::vector<Stream> streams, WaitSet& wait_set, int peer)
      : streams_(std::move(streams)),
        out_(streams_.size()),
        in_(streams_.size()),
        wait_set_(wait_set),
        fault_(peer, "tcp") {}

  // Only poll() sends, so that messages posted together share a system call and a packet.
  Status post_send(const void* data, size_t bytes) override {
    if (unusable(bytes)) return why(bytes);
    auto* from = static_cast<std::byte*>(const_cast<void*>(data));
    const uint64_t message = sends_.next();
    const auto [pieces, first] = out_.deal(bytes, [&](size_t socket, size_t at, size_t length) {
      streams_[socket].post_send({from + at, length, message});
    });
    sends_.open({bytes, pieces, first, false});
    return {};
  }

  Status post_recv(void* data, size_t bytes) override {
    return post(static_cast<std::byte*>(data), bytes);
  }
  Status post_incoming(size_t bytes) override { return post(nullptr, bytes); }

  std::span<const std::byte> incoming() override {
    if (unusable(1) || receives_.idle() || !receives_.front().shown) return {};
    return first_stream().shown();
  }

  void consume(size_t bytes) override {
    bytes = std::min(bytes, incoming().size());
    if (bytes == 0) return;
    Stream& stream = first_stream();
    receives_.front().consumed += bytes;
    if (stream.consume(bytes)) receives_.finish_piece(receives_.finished());
  }

  Status poll(Completions& completions) override {
    Status status = move();
    completions = {sends_.finished(), receives_.finished()};
    return status;
  }

  void abort() noexcept override { gate_.abort(); }

 private:
  Status move() {
    if (unusable(1)) return why(1);
    int broken = -1;  // errno of a send that failed; what came before that is read first
    bool moved = !sends_.idle() || !receives_.idle();
    for (int turn = 0; moved && turn < kTurns; ++turn) {
      moved = false;
      for (Stream& stream : streams_) {
        const Outcome sent = broken < 0 ? stream.send(gate_, finished_) : Outcome::blocked;
        sends_.finish(finished_);
        if (sent == Outcome::failed) broken = stream.failure();
        const Outcome received = stream.receive(gate_, finished_);
        receives_.finish(finished_);
        if (received == Outcome::failed) return fail("receive", stream.failure());
        moved |= sent == Outcome::moved || received == Outcome::moved;
      }
    }
    if (broken >= 0) return fail("send", broken);
    if (moved) wait_set_.ring();  // the sockets will not announce again what they still hold
    return {};
  }

  Status post(std::byte* data, size_t bytes) {
    if (unusable(bytes)) return why(bytes);
    const uint64_t message = receives_.next();
    const auto [pieces, first] = in_.deal(bytes, [&](size_t socket, size_t at, size_t length) {
      streams_[socket].post_receive({data ? data + at : nullptr, length, message});
    });
    receives_.open({bytes, pieces, first, data == nullptr});
    return {};
  }

  // Where the next byte of the first message comes from.
  Stream& first_stream() {
    const Ledger::Entry& message = receives_.front();
    const size_t stripe = message.consumed / kStripeBytes;
    return streams_[(message.first_socket + stripe) % streams_.size()];
  }

  bool unusable(size_t bytes) const { return gate_.aborted() || fault_ || bytes == 0; }
  Status why(size_t bytes) const {
    if (fault_) return fault_.status();
    return gate_.aborted() || bytes > 0 ? fault_.aborted() : fault_.empty_message();
  }

  Status fail(const char* call, int error_number) {
    switch (error_number) {
      case 0:
      case EPIPE: return fault_.fail(ErrorCode::peer_lost, "the peer closed the connection");
      case ECONNRESET: return fault_.fail(ErrorCode::peer_lost, "connection reset by peer");
      case ETIMEDOUT:
        return fault_.fail(ErrorCode::peer_lost,
                           "connection timed out: the peer's host acknowledges nothing");
      case EHOSTUNREACH:
      case ENETUNREACH:
        return fault_.fail(ErrorCode::peer_lost, system_message(call, error_number));
      default: return fault_.fail(ErrorCode::network, system_message(call, error_number));
    }
  }

  AbortGate gate_;
  std::vector<Stream> streams_;
  Dealer out_, in_;
  Ledger sends_, receives_;
  Fifo<uint64_t> finished_;  // of the call at hand
  WaitSet& wait_set_;
  LinkFault fault_;
};

class Tcp final : public Transport {
 public:
  std::vector<std::vector<std::unique_ptr<Link>>> connect(const Group& group,
                                                          const std::vector<bool>& wanted,
                                                          int channels) override {
    const int sockets = std::clamp(group.options->tcp_sockets, 1, 64);
    std::vector<std::vector<std::unique_ptr<Link>>> links(channels);
    for (auto& channel : links) channel.resize(group.size());
    const auto peers = std::count(wanted.begin(), wanted.end(), true);
    make_room_for_descriptors(static_cast<size_t>(peers * channels * sockets));
    std::vector<std::vector<OwnedFd>> fds =  // [peer][channel * sockets + socket]
        connect_pairs(group, wanted, channels * sockets, "tcp", [&](int from, int to, int index) {
          const int channel = index / sockets * 256 + index % sockets;
          return Greeting{Purpose::tcp, static_cast<uint16_t>(channel), from, to};
        });
    for (int peer = 0; peer < group.size(); ++peer) {
      for (int channel = 0; channel < channels && !fds[peer].empty(); ++channel) {
        links[channel][peer] = make_link(group, peer, &fds[peer][channel * sockets], sockets);
      }
    }
    return links;
  }

 private:
  static std::unique_ptr<Link> make_link(const Group& group, int peer, OwnedFd* fds, int sockets) {
    std::vector<Stream> streams;
    streams.reserve(static_cast<size_t>(sockets));
    for (int i = 0; i < sockets; ++i) {
      const unsigned patience = static_cast<unsigned>(12 * group.options->heartbeat.count());
      ::setsockopt(fds[i].get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
      group.wait_set->add(fds[i].get(), EPOLLIN | EPOLLOUT);
      streams.emplace_back(std::move(fds[i]));
    }
    return std::make_unique<TcpLink>(std::move(streams), *group.wait_set, peer);
  }
};

}  // namespace

std::unique_ptr<Transport> make_tcp() { return std::make_unique<Tcp>(); }

}  // namespace ringwood
