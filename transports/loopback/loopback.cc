#include "transports/loopback/loopback.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "transports/base/wait_set.h"
#include "transports/bootstrap/store.h"
#include "transports/link_parts.h"
#include "transports/loopback/chaos.h"

namespace ringwood {
namespace {

// Bytes copied under a lock; the other side's post may wait that long.
constexpr size_t kCopyBytes = size_t{64} << 10;

struct PostedMessage {
  std::byte* data;  // null: to be read in place
  size_t bytes;
};

// Messages on their way to one side. The sender posts, the receiver copies, both under the lock.
struct Direction {
  std::mutex mutex;
  Fifo<PostedMessage> sends;
  size_t taken = 0;  // bytes of the first send that have been copied
  // Counts of sends; written under the lock, and read without it to see that nothing has changed.
  std::atomic<uint64_t> posted{0}, finished{0};
};

enum class End { open, closed, aborted, cut };

// What the two ends of a link share.
struct Connection {
  Direction to[2];
  std::atomic<End> end[2] = {End::open, End::open};
  std::atomic<uint64_t> messages{0};
};

// A rank's entry in the directory of this process.
struct Member {
  explicit Member(OwnedFd fd) : bell(std::move(fd)) {}
  std::atomic<bool> armed{false};
  Doorbell bell;
  // Guarded by the directory's lock: connections to higher ranks by (rank, channel), and the number
  // of ranks that have found this member.
  std::map<std::pair<int, int>, std::shared_ptr<Connection>> connections;
  int found_by = 0;

  void wake() {
    full_fence();  // pairs with arm()
    if (armed.load(std::memory_order_relaxed) && armed.exchange(false)) bell.ring();
  }
};

// The members of this process, by random names. Process-wide, because loopback reaches the process.
struct Directory {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Member>> members;
};
Directory& directory() {
  static Directory* const process_wide =
      new Directory;  // outlives links that are destroyed at exit
  return *process_wide;
}

class LoopbackLink final : public Link {
 public:
  LoopbackLink(std::shared_ptr<Connection> connection, int side, std::shared_ptr<Member> self,
               std::shared_ptr<Member> other, int peer, const Chaos& chaos)
      : connection_(std::move(connection)),
        side_(side),
        self_(std::move(self)),
        other_(std::move(other)),
        fault_(peer, "loopback"),
        chaos_(chaos) {
    chaos_.next_message();
  }
  ~LoopbackLink() override { end(End::closed); }

  Status post_send(const void* data, size_t bytes) override {
    if (Status bad = check(bytes); !bad) return bad;
    Direction& out = outgoing();
    {
      std::lock_guard lock(out.mutex);
      if (ended()) return check(bytes);
      out.sends.push({static_cast<std::byte*>(const_cast<void*>(data)), bytes});
      ++out.posted;
    }
    other_->wake();
    return {};
  }

  Status post_recv(void* data, size_t bytes) override {
    return post({static_cast<std::byte*>(data), bytes});
  }
  Status post_incoming(size_t bytes) override { return post({nullptr, bytes}); }

  std::span<const std::byte> incoming() override {
    if (ended() || fault_) return {};
    return {piece_.data() + piece_used_, piece_bytes_ - piece_used_};
  }

  void consume(size_t bytes) override {
    if (ended() || fault_) return;
    piece_used_ += std::min(bytes, piece_bytes_ - piece_used_);
    if (piece_used_ < piece_bytes_) return;
    piece_used_ = piece_bytes_ = 0;
    Direction& in = arriving();
    std::lock_guard lock(in.mutex);
    if (!in.sends.empty() && in.taken == in.sends.front().bytes) finish_first(in);
  }

  Status poll(Completions& completions) override {
    Status status = check(1);
    more_ = false;
    const bool delayed = status && receive();
    const uint64_t sent = outgoing().finished.load(std::memory_order_acquire);
    chaos_.follow(reported_.sent, sent, wait_sent_);
    chaos_.follow(reported_.received, received_, wait_received_);
    // While something is delayed, the rank must not sleep.
    if (delayed || reported_.sent != sent || reported_.received != received_) self_->bell.ring();
    if (status && fault_) status = fault_.status();
    if (status) status = peer_end();
    completions = status ? reported_ : Completions{outgoing().finished, received_};
    completions.more = more_;
    return status;
  }

  void abort() noexcept override { end(End::aborted); }

 private:
  Direction& outgoing() { return connection_->to[1 - side_]; }
  Direction& arriving() { return connection_->to[side_]; }
  bool ended() const {
    return connection_->end[side_].load(std::memory_order_acquire) != End::open;
  }

  // Takes both locks in turn: then no copy from or to this rank's memory is under way, and none
  // begins.
  void end(End how) noexcept {
    End open = End::open;
    connection_->end[side_].compare_exchange_strong(open, how);
    for (Direction& direction : connection_->to) std::lock_guard wait_for_copies(direction.mutex);
    other_->wake();
  }

  Status check(size_t bytes) {
    if (fault_) return fault_.status();
    const End mine = connection_->end[side_].load(std::memory_order_acquire);
    if (mine == End::cut) return fault_.fail(ErrorCode::network, "connection cut");
    if (mine != End::open) return fault_.aborted();
    return bytes == 0 ? fault_.empty_message() : Status();
  }

  // For a rank that still wants something, asked last: the peer may just have taken our last
  // message.
  Status peer_end() {
    const End end = connection_->end[1 - side_].load(std::memory_order_acquire);
    if (end == End::open || end == End::cut) return {};
    if (outgoing().finished == outgoing().posted && receives_.empty()) return {};
    const char* const verb = end == End::aborted ? "aborted" : "closed";
    return fault_.fail(ErrorCode::peer_lost, fmt::format("the peer {} its end of the link", verb));
  }

  Status post(const PostedMessage& receive) {
    if (Status bad = check(receive.bytes); !bad) return bad;
    receives_.push(receive);
    return {};
  }

  // True if something that has arrived was delayed.
  bool receive() {
    Direction& in = arriving();
    bool delayed = false;
    size_t moved = 0;
    while (!receives_.empty() && piece_bytes_ == 0 && in.posted != received_) {
      more_ = moved >= kPollBytes;
      if (more_) break;
      std::lock_guard lock(in.mutex);
      if (ended() || peer_left()) break;
      if (in.taken == 0 && (delayed = chaos_.delays())) break;
      const PostedMessage& from = in.sends.front();
      PostedMessage& to = receives_.front();
      if (from.bytes != to.bytes) {
        fault_.set(ErrorCode::mismatch,
                   fmt::format("the peer sent a message of {} bytes where {} were expected",
                               from.bytes, to.bytes));
        break;
      }
      const size_t bytes = std::min(from.bytes - in.taken, kCopyBytes);
      if (!to.data && piece_.size() < bytes) piece_.resize(kCopyBytes);
      std::memcpy(to.data ? to.data + in.taken : piece_.data(), from.data + in.taken, bytes);
      in.taken += bytes;
      moved += bytes;
      if (!to.data) {
        piece_bytes_ = bytes;
      } else if (in.taken == from.bytes) {
        finish_first(in);
      }
    }
    return delayed;
  }

  bool peer_left() const {
    return connection_->end[1 - side_].load(std::memory_order_acquire) != End::open;
  }

  // Requires the lock of `in`.
  void finish_first(Direction& in) {
    in.sends.pop();
    in.taken = 0;
    ++in.finished;
    receives_.pop();
    ++received_;
    chaos_.next_message();
    if (connection_->messages.fetch_add(1) + 1 >= chaos_.cut_after()) {
      connection_->end[0] = connection_->end[1] = End::cut;
      self_->bell.ring();
    }
    other_->wake();
  }

  const std::shared_ptr<Connection> connection_;
  const int side_;
  const std::shared_ptr<Member> self_, other_;
  LinkFault fault_;
  Chaos chaos_;
  Fifo<PostedMessage> receives_;
  uint64_t received_ = 0;
  Completions reported_;
  bool more_ = false;  // as Completions::more
  uint32_t wait_sent_ = 0, wait_received_ = 0;
  // incoming() returns a copy, made under the lock, so that the sender may abort while it is being
  // read.
  std::vector<std::byte> piece_;
  size_t piece_bytes_ = 0, piece_used_ = 0;
};

class Loopback final : public Transport {
 public:
  explicit Loopback(const LoopbackFaults& faults) : faults_(faults) {}
  ~Loopback() override {
    Directory& all = directory();
    std::lock_guard lock(all.mutex);
    all.members.erase(name_);
  }

  LinkTable connect(const Group& group, const std::vector<bool>& wanted, int channels) override {
    LinkTable links = no_links(group, channels);
    std::vector<int> neighbours;  // ranks of one process are on one host
    for (int r = 0; r < group.size(); ++r) {
      if (group.hosts[r] == group.hosts[group.rank()]) neighbours.push_back(r);
    }
    if (neighbours.size() < 2) return links;
    enter(group);
    const std::vector<std::string> names = exchange(group, neighbours);
    int found = 0;
    for (size_t i = 0; i < neighbours.size(); ++i) {
      const int peer = neighbours[i];
      if (peer == group.rank() || !wanted[peer]) continue;
      if (connect_peer(group, peer, names[i], links)) ++found;
    }
    Directory& all = directory();
    std::unique_lock lock(all.mutex);
    // No rank goes on, and perhaps ends, before every rank that can find it has.
    if (!all.changed.wait_until(lock, limit(group.deadline),
                                [&] { return me_->found_by == found; })) {
      throw Error(ErrorCode::timeout, "loopback: a rank of this process did not connect in time");
    }
    return links;
  }

  void arm() noexcept override {
    if (!me_) return;
    me_->armed.store(true, std::memory_order_relaxed);
    full_fence();  // pairs with wake()
  }
  void disarm() noexcept override {
    if (me_) me_->armed.store(false, std::memory_order_relaxed);
  }

 private:
  // Bounded, because clocks must not overflow in the wait.
  static Clock::time_point limit(Deadline deadline) {
    return std::min(deadline.at(), Clock::now() + std::chrono::hours(24));
  }

  void enter(const Group& group) {
    const int fd = ::fcntl(group.wait_set->doorbell_fd(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) throw Error(ErrorCode::system, system_message("fcntl(F_DUPFD_CLOEXEC)"));
    close_on_fork(fd);
    me_ = std::make_shared<Member>(OwnedFd(fd));
    for (uint8_t byte : random_session()) name_ += fmt::format("{:02x}", byte);
    Directory& all = directory();
    std::lock_guard lock(all.mutex);
    all.members[name_] = me_;
  }

  // Exchanges the names of the neighbours: the first collects and publishes them, the last to read
  // removes the list.
  std::vector<std::string> exchange(const Group& group, const std::vector<int>& neighbours) {
    Store& store = *group.store;
    const auto key = [](const char* what, int rank) {
      return fmt::format("loopback/{}/{}", what, rank);
    };
    const int first = neighbours.front();
    if (group.rank() != first) {
      store.set(key("name", group.rank()), name_, group.deadline);
    } else {
      std::string list = name_;
      for (size_t i = 1; i < neighbours.size(); ++i) {
        list += store.get(key("name", neighbours[i]), group.deadline);
        store.remove(key("name", neighbours[i]));
      }
      store.set(key("names", first), list, group.deadline);
    }
    const std::string list = store.get(key("names", first), group.deadline);
    const int64_t readers = store.add(key("readers", first), 1, group.deadline);
    if (readers == static_cast<int64_t>(neighbours.size())) {
      store.remove(key("names", first));
      store.remove(key("readers", first));
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < neighbours.size(); ++i) {
      names.push_back(
          list.size() >= (i + 1) * name_.size() ? list.substr(i * name_.size(), name_.size()) : "");
    }
    return names;
  }

  bool connect_peer(const Group& group, int peer, const std::string& name, LinkTable& links) {
    Directory& all = directory();
    std::lock_guard lock(all.mutex);
    auto it = all.members.find(name);
    if (it == all.members.end()) return false;
    const std::shared_ptr<Member> other = it->second;
    const int me = group.rank();
    Member& lower = me < peer ? *me_ : *other;
    const int side = me < peer ? 0 : 1;
    for (int channel = 0; channel < static_cast<int>(links.size()); ++channel) {
      std::shared_ptr<Connection>& connection = lower.connections[{std::max(me, peer), channel}];
      if (!connection) connection = std::make_shared<Connection>();
      const uint64_t salt = (uint64_t(me) << 40) + (uint64_t(peer) << 16) + uint64_t(channel);
      links[channel][peer] =
          std::make_unique<LoopbackLink>(connection, side, me_, other, peer, Chaos(faults_, salt));
    }
    ++other->found_by;
    all.changed.notify_all();
    return true;
  }

  const LoopbackFaults faults_;
  std::shared_ptr<Member> me_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Transport> make_loopback(const LoopbackFaults& faults) {
  return std::make_unique<Loopback>(faults);
}

}  // namespace ringwood
