#include "transports/tcp/tcp.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "transports/base/descriptors.h"
#include "transports/base/wait_set.h"
#include "transports/pairs.h"
#include "transports/tcp/stream.h"

namespace ringwood {
namespace {

using tcp::Outcome;
using tcp::Piece;
using tcp::Stream;

// With several sockets, messages are dealt out to them in stripes of this size.
constexpr size_t kStripeBytes = size_t{256} << 10;
// Smaller messages all use the first socket, where they share system calls.
constexpr size_t kUnstripedBytes = size_t{64} << 10;
constexpr int kMaxSockets = 16;
// System calls for either direction in one poll(), which make about kPollBytes; with a peer as fast
// as this rank it would otherwise never return.
constexpr size_t kMaxCalls = 4;

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
    bool in_place;
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
  TcpLink(std::vector<Stream> streams, WaitSet& wait_set, const bool& armed, int peer)
      : zero_copy_(streams[0].zero_copy()),
        streams_(std::move(streams)),
        out_(streams_.size()),
        in_(streams_.size()),
        wait_set_(wait_set),
        armed_(armed),
        fault_(peer, "tcp") {}

  // Only poll() sends, so that messages posted together share a system call and a packet.
  Status post_send(const void* data, size_t bytes) override {
    if (fault_.refuses(gate_, bytes)) return fault_.why(gate_, bytes);
    auto* from = static_cast<std::byte*>(const_cast<void*>(data));
    const uint64_t message = sends_.next();
    const auto [pieces, first] = out_.deal(bytes, [&](size_t socket, size_t at, size_t length) {
      streams_[socket].post_send({from + at, length, message});
    });
    sends_.open({bytes, pieces, first, false});
    posted_.store(message + 1, std::memory_order_relaxed);
    return {};
  }

  Status post_recv(void* data, size_t bytes) override {
    return post(static_cast<std::byte*>(data), bytes);
  }
  Status post_incoming(size_t bytes) override { return post(nullptr, bytes); }

  std::span<const std::byte> incoming() override {
    if (fault_.refuses(gate_, 1) || receives_.idle() || !receives_.front().in_place) return {};
    return first_stream().in_place();
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
    completions = {sends_.finished(), receives_.finished(), more_};
    return status;
  }

  void abort() noexcept override {
    gate_.abort();
    for (const Stream& stream : streams_)
      if (zero_copy_) stream.sever();
  }

  // The stripes of a message are on their way at the same time.
  std::optional<LinkTraffic> traffic() const override {
    LinkTraffic all{.messages = posted_.load(std::memory_order_relaxed)};
    if (all.messages == 0) return all;
    for (const Stream& stream : streams_) {
      const LinkTraffic one = stream.traffic();
      all.bytes += one.bytes;
      all.busy = std::max(all.busy, one.busy);
      all.blocked = std::max(all.blocked, one.blocked);
      all.retransmissions += one.retransmissions;
    }
    return all;
  }

 private:
  Status move() {
    more_ = false;
    if (fault_.refuses(gate_, 1)) return fault_.why(gate_, 1);
    bool moved = !sends_.idle() || !receives_.idle(), arrived = false, shows = false;
    for (size_t calls = 0; moved && calls < kMaxCalls; calls += streams_.size()) {
      moved = false;
      for (Stream& stream : streams_) {
        const Outcome sent = broken_ < 0 ? stream.send(gate_, finished_) : Outcome::blocked;
        sends_.finish(finished_);
        if (sent == Outcome::failed) broken_ = stream.failure();
        const Outcome received = stream.receive(gate_, finished_);
        receives_.finish(finished_);
        if (received == Outcome::failed && ended_ < 0) ended_ = stream.failure();
        moved |= sent == Outcome::moved || received == Outcome::moved;
        arrived |= received == Outcome::moved;
      }
      // Bytes that have come are read before more come, while they are in a cache.
      shows = arrived && !incoming().empty();
      if (shows) break;
    }
    more_ = moved && !shows;
    if ((broken_ >= 0 || ended_ >= 0) && !moved) return end();
    // The sockets will not announce again what they still have.
    if (moved && armed_) wait_set_.ring();
    return !moved && armed_ ? look() : Status();
  }

  // After the end of a socket, when all that had come is read. The peer ends its sockets one after
  // the other, and what it sent or took on the others before may still be on its way. So may the
  // kernel's word on memory sent zero-copy, whose bytes the peer has taken.
  Status end() {
    for (Stream& stream : streams_) stream.take_back(finished_);
    sends_.finish(finished_);
    const bool closed = ended_ == 0 && broken_ < 0;
    if (closed && std::ranges::any_of(streams_, &Stream::may_finish))
      return armed_ ? look() : Status();
    return ended_ >= 0 ? fail("receive", ended_) : fail("send", broken_);
  }

  // To be called before a sleep; fails if something is waited for that cannot come.
  Status look() {
    if (sends_.idle() && receives_.idle()) return {};
    for (Stream& stream : streams_)
      if (stream.host_gone()) return fail("wait", ETIMEDOUT);
    return {};
  }

  Status post(std::byte* data, size_t bytes) {
    if (fault_.refuses(gate_, bytes)) return fault_.why(gate_, bytes);
    const uint64_t message = receives_.next();
    const auto [pieces, first] = in_.deal(bytes, [&](size_t socket, size_t at, size_t length) {
      streams_[socket].post_receive({data ? data + at : nullptr, length, message});
    });
    receives_.open({bytes, pieces, first, data == nullptr});
    return {};
  }

  // The socket from which the next byte of the first message comes.
  Stream& first_stream() {
    const Ledger::Entry& message = receives_.front();
    const size_t stripe = message.consumed / kStripeBytes;
    return streams_[(message.first_socket + stripe) % streams_.size()];
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
  const bool zero_copy_;  // is or was in use
  std::vector<Stream> streams_;
  Dealer out_, in_;
  Ledger sends_, receives_;
  std::atomic<uint64_t> posted_{0};  // sends
  Fifo<uint64_t> finished_;          // by the current call
  bool more_ = false;                // as Completions::more
  int broken_ = -1, ended_ = -1;  // errno of the first send that failed, and of the first receive
  WaitSet& wait_set_;
  const bool& armed_;  // the transport's
  LinkFault fault_;
};

class Tcp final : public Transport {
 public:
  explicit Tcp(const TcpSettings& settings) : settings_(settings) {}

  LinkTable connect(const Group& group, const std::vector<bool>& wanted, int channels) override {
    const int sockets = wished_sockets(group);
    LinkTable links = no_links(group, channels);
    const auto peers = std::count(wanted.begin(), wanted.end(), true);
    make_room_for_descriptors(static_cast<size_t>(peers * channels * sockets),
                              "the connections of tcp");
    auto fds = connect_all(group, wanted, channels, sockets);
    for (int peer = 0; peer < group.size(); ++peer) {
      const size_t each = fds[peer].size() / static_cast<size_t>(channels);
      for (int channel = 0; channel < channels && each > 0; ++channel) {
        links[channel][peer] = make_link(group, peer, &fds[peer][channel * each], each);
      }
    }
    return links;
  }

  void arm() noexcept override { armed_ = true; }
  void disarm() noexcept override { armed_ = false; }

 private:
  // The number of connection `index` for pairs.h: its channel and socket.
  static uint16_t number_of(int index, int sockets) {
    return static_cast<uint16_t>(index / sockets * 256 + index % sockets);
  }

  static int wished_sockets(const Group& group) {
    if (group.options->tcp_sockets > 0) return std::min(group.options->tcp_sockets, kMaxSockets);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
    const auto here = std::count(group.hosts.begin(), group.hosts.end(), group.hosts[group.rank()]);
    return sockets_for(CPU_COUNT(&cores), static_cast<int>(here));
  }

  // [peer][channel * sockets + socket]. The dialling rank of a pair decides how many connections
  // there are, and sends that number on the first.
  static std::vector<std::vector<OwnedFd>> connect_all(const Group& group,
                                                       const std::vector<bool>& wanted,
                                                       int channels, int sockets) {
    std::vector<int> counts(wanted.begin(), wanted.end());
    auto fds = connect_pairs(group, counts, "tcp", [](int, int) { return number_of(0, 1); });
    std::vector<int> sockets_of(group.size(), sockets);
    for (int peer = 0; peer < group.rank(); ++peer) {
      const auto said = static_cast<uint8_t>(sockets);  // fits the socket's empty buffer
      if (wanted[peer]) (void)!::send(fds[peer][0].get(), &said, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    for (int peer = group.rank() + 1; peer < group.size(); ++peer)
      if (wanted[peer]) sockets_of[peer] = read_sockets(fds[peer][0].get(), peer, group.deadline);
    for (int peer = 0; peer < group.size(); ++peer)
      counts[peer] = wanted[peer] ? channels * sockets_of[peer] - 1 : 0;
    auto others = connect_pairs(group, counts, "tcp", [&](int peer, int index) {
      return number_of(index + 1, sockets_of[peer]);
    });
    for (int peer = 0; peer < group.size(); ++peer)
      for (OwnedFd& fd : others[peer]) fds[peer].push_back(std::move(fd));
    return fds;
  }

  static int read_sockets(int fd, int peer, Deadline deadline) {
    uint8_t sockets = 0;
    pollfd one{fd, POLLIN, 0};
    while (::poll(&one, 1, deadline.left_ms()) <= 0 && !deadline.passed()) continue;
    if (::recv(fd, &sockets, 1, MSG_DONTWAIT) == 1 && sockets >= 1 && sockets <= kMaxSockets)
      return sockets;
    Error error(ErrorCode::network, "the peer did not send its number of connections");
    error.peer = peer;
    error.transport = "tcp";
    throw error;
  }

  std::unique_ptr<Link> make_link(const Group& group, int peer, OwnedFd* fds, size_t sockets) {
    std::vector<Stream> streams;
    streams.reserve(sockets);
    for (size_t i = 0; i < sockets; ++i) {
      group.wait_set->add(fds[i].get(), EPOLLIN | EPOLLOUT);
      const bool zero_copy = settings_.always_zero_copy || tcp::leaves_by_hardware(fds[i].get());
      streams.emplace_back(std::move(fds[i]), zero_copy);
      streams.back().watch_host(host_patience(group.options->heartbeat));
    }
    return std::make_unique<TcpLink>(std::move(streams), *group.wait_set, armed_, peer);
  }

  const TcpSettings settings_;
  bool armed_ = false;  // a thread is about to sleep: what is left unread must be announced
};

}  // namespace

int sockets_for(int cores, int ranks_on_host) {
  return std::clamp(cores / std::max(1, ranks_on_host) - 1, 1, 4);
}

std::unique_ptr<Transport> make_tcp(const TcpSettings& settings) {
  return std::make_unique<Tcp>(settings);
}
std::unique_ptr<Transport> make_tcp() { return make_tcp(TcpSettings{}); }

}  // namespace ringwood
