#include "tools/ladder/rungs.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "tools/gather.h"
#include "tools/ladder/rung_waiter.h"
#include "tools/perf/perf_operations.h"
#include "transports/base/clock.h"
#include "transports/base/host.h"
#include "transports/bootstrap/identity.h"
#include "transports/bootstrap/net.h"
#include "transports/transport.h"

namespace ringwood::tools {
namespace {

// Rank 0 draws it.
Identity agreed_identity(Communicator& group) {
  Identity mine;
  if (group.rank() == 0) mine = {random_key(), random_session()};
  std::string text(reinterpret_cast<const char*>(mine.key.data()), mine.key.size());
  text.append(reinterpret_cast<const char*>(mine.session.data()), mine.session.size());
  const std::string drawn = gather_texts(group, text)[0];
  std::memcpy(mine.key.data(), drawn.data(), mine.key.size());
  std::memcpy(mine.session.data(), drawn.data() + mine.key.size(), mine.session.size());
  mine.rank = group.rank();
  mine.size = 2;
  return mine;
}

class SocketRung final : public Rung {
 public:
  SocketRung(int fd, const LadderPair& pair) : fd_(fd), waiter_(pair) {
    waiter_.wait_set().add(fd_, EPOLLIN | EPOLLOUT);
  }
  ~SocketRung() override {
    waiter_.wait_set().remove(fd_);
    ::close(fd_);
  }
  SocketRung(const SocketRung&) = delete;
  SocketRung& operator=(const SocketRung&) = delete;

  double exchange(size_t bytes, int times) override {
    in_.resize(std::max(in_.size(), bytes));
    out_.resize(std::max(out_.size(), bytes));
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i) one(bytes);
    return seconds_since(begin) / times;
  }

 private:
  // Never waits: what the kernel takes now, or has now.
  size_t moved(ssize_t done) const {
    if (done > 0) return static_cast<size_t>(done);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    throw Error(ErrorCode::network,
                done == 0 ? std::string("the other rank has closed the socket of the ladder")
                          : system_message("the socket of the ladder"));
  }
  void one(size_t bytes) {
    size_t sent = 0, received = 0;
    const auto iterate = [&] {
      const size_t before = sent + received;
      if (sent < bytes) sent += moved(::send(fd_, out_.data() + sent, bytes - sent, MSG_NOSIGNAL));
      if (received < bytes)
        received += moved(::recv(fd_, in_.data() + received, bytes - received, 0));
      return sent + received > before;
    };
    waiter_.until([&] { return sent == bytes && received == bytes; }, iterate, "socket");
  }

  const int fd_;
  RungWaiter waiter_;
  std::vector<std::byte> in_, out_;
};

class LinkRung final : public Rung {
 public:
  LinkRung(const TransportRow& row, const LadderPair& pair, const Identity& identity)
      : options_(pair.options), store_(pair.store), waiter_(pair) {
    const auto listener = listen(identity, pair.address, options_);
    const auto addresses = gather_texts(pair.group, to_string(listener->addresses()));
    const auto hosts = gather_hosts(pair.group);
    group_.identity = identity;
    group_.hosts = {"one", hosts.size() > 1 ? "other" : "one"};
    group_.options = &options_;
    group_.store = store_.get();
    group_.wait_set = &waiter_.wait_set();
    group_.listener = listener.get();
    group_.addresses = addresses;
    group_.deadline = Deadline::after(options_.init_timeout);
    links_ = waiter_.use(row.make()).connect(group_, {identity.rank != 0, identity.rank != 1}, 1);
    link_ = links_[0][static_cast<size_t>(1 - identity.rank)].get();
    group_.listener = nullptr;
  }
  bool reaches() const { return link_ != nullptr; }

  double exchange(size_t bytes, int times) override {
    in_.resize(std::max(in_.size(), bytes));
    out_.resize(std::max(out_.size(), bytes));
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i) {
      check(link_->post_recv(in_.data(), bytes));
      check(link_->post_send(out_.data(), bytes));
      ++posted_;
      waiter_.until([&] { return over(); }, [&] { return move(); }, "link");
    }
    return seconds_since(begin) / times;
  }

 private:
  static void check(Status status) {
    if (!status) throw Error(std::move(status.error()));
  }
  bool over() const { return now_.sent >= posted_ && now_.received >= posted_; }
  // Only a message that ends is seen.
  bool move() {
    const uint64_t before = now_.sent + now_.received;
    check(link_->poll(now_));
    return now_.sent + now_.received > before;
  }

  const Options options_;
  const std::shared_ptr<Store> store_;
  RungWaiter waiter_;
  Group group_;
  LinkTable links_;
  Link* link_ = nullptr;
  Completions now_;
  uint64_t posted_ = 0;
  std::vector<std::byte> in_, out_;
};

class CollectiveRung final : public Rung {
 public:
  explicit CollectiveRung(Communicator& group) : group_(group) {}
  double exchange(size_t bytes, int times) override {
    in_.resize(std::max(in_.size(), bytes));
    out_.resize(std::max(out_.size(), 2 * bytes));
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i)
      finish(
          group_.all_gather(in_.data(), out_.data(), bytes, DataType::uint8, synchronous_call()));
    return seconds_since(begin) / times;
  }

 private:
  Communicator& group_;
  std::vector<std::byte> in_, out_;
};

}  // namespace

RungWaiter::RungWaiter(const LadderPair& pair)
    : timeout_(pair.options.timeout), waiter_(pair.options) {
  mesh_.wait_set = std::make_unique<WaitSet>();
  const auto cores = gather_texts(pair.group, cores_token());  // "boot/0.1.2."
  std::set<std::string> own;
  for (const HostRanks& host : gather_hosts(pair.group)) {
    if (std::ranges::count(host.ranks, pair.group.rank()) == 0) continue;
    mesh_.ranks_on_this_host = static_cast<int>(host.ranks.size());
    for (const int rank : host.ranks) {
      const std::string& text = cores[static_cast<size_t>(rank)];
      std::istringstream numbers(text.substr(text.rfind('/') + 1));
      for (std::string number; std::getline(numbers, number, '.');) own.insert(number);
    }
  }
  mesh_.cores_on_this_host = std::max(1, static_cast<int>(own.size()));
  waiter_.use(mesh_);
}

Transport& RungWaiter::use(std::unique_ptr<Transport> transport) {
  mesh_.transports.push_back(std::move(transport));
  return *mesh_.transports.back();
}

void RungWaiter::fail(const char* what) {
  throw Error(ErrorCode::timeout, fmt::format("{}: the other rank did not answer in time", what));
}

MadeRung make_socket_rung(const LadderPair& pair) {
  const Identity identity = agreed_identity(pair.group);
  const auto listener = listen(identity, pair.address, pair.options);
  const auto addresses = gather_texts(pair.group, to_string(listener->addresses()));
  const Greeting greeting{purpose_of("ladder"), 0, 1, 0};
  const Deadline deadline = Deadline::after(pair.options.init_timeout);
  Result<int> fd = identity.rank == 0
                       ? listener->take(greeting, deadline)
                       : dial(parse_net_addresses(addresses[0]), identity, greeting, deadline);
  if (!fd) throw Error(std::move(fd.error()));
  return {std::make_unique<SocketRung>(*fd, pair), "plain sends and receives on one TCP connection",
          ""};
}

MadeRung make_link_rung(const LadderPair& pair) {
  const std::string transport = pair.group.transport_to(1 - pair.group.rank());
  const std::string name = transport.substr(0, transport.find('+'));
  MadeRung made{nullptr, fmt::format("a link over {}, without a group around it", name), ""};
  const auto rows = transport_table();
  const auto row = std::ranges::find_if(rows, [&](const auto& r) { return name == r.name; });
  if (row == rows.end()) {
    made.why_not = fmt::format("the group's transport, {}, has no links of its own", transport);
    return made;
  }
  auto link = std::make_unique<LinkRung>(*row, pair, agreed_identity(pair.group));
  const auto reaches = gather_texts(pair.group, link->reaches() ? "1" : "");
  if (reaches[0].empty() || reaches[1].empty())
    made.why_not = fmt::format("a second link over {} was not made", name);
  else
    made.rung = std::move(link);
  return made;
}

MadeRung make_collective_rung(const LadderPair& pair) {
  return {std::make_unique<CollectiveRung>(pair.group), "all_gather of two ranks, from C++", ""};
}

}  // namespace ringwood::tools
