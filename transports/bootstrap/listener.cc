#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "transports/base/fork_guard.h"
#include "transports/base/host.h"
#include "transports/base/thread.h"
#include "transports/bootstrap/keyed_acceptor.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/sockets.h"
#include "transports/bootstrap/strangers/refusals.h"

namespace ringwood {
namespace {

using Key = std::tuple<uint16_t, uint16_t, int>;  // purpose, channel, from
Key key_of(const Greeting& g) { return {static_cast<uint16_t>(g.purpose), g.channel, g.from}; }

// The state of the thread; the destructor runs in the process that made it.
class Acceptor {
 public:
  Acceptor(const Identity& me, const std::vector<int>& fds) : me_(me) {
    for (int fd : fds) addresses_.push_back(local_address(fd).numeric());
    refusals_.emplace("net", to_string(addresses_));
    for (int fd : fds) {
      doors_.emplace_back(
          io_, fd, me_,
          KeyedAcceptor::Events{[this](const Greeting& g, int c) { keep(g, c); },
                                [this](const std::string& why) { note(why); }, nullptr});
    }
    thread_ = start_thread("ringwood-accept", [this] { run(); });
  }

  ~Acceptor() {
    io_.stop();
    thread_.join();
    doors_.clear();
    for (auto& [key, fd] : ready_) close_connection(fd);
  }

  const std::vector<NetAddress>& addresses() const { return addresses_; }

  Result<int> take(const Greeting& greeting, Deadline deadline) {
    auto began = Clock::now();
    std::unique_lock lock(mutex_);
    for (;;) {
      if (auto found = ready_.find(key_of(greeting)); found != ready_.end()) {
        int fd = found->second;
        ready_.erase(found);
        return fd;
      }
      if (deadline.passed()) return missing(greeting, began);
      arrived_.wait_for(lock, std::chrono::milliseconds(deadline.left_ms()));
    }
  }

 private:
  // Precondition: mutex_ is held.
  Error missing(const Greeting& greeting, Clock::time_point began) const {
    double waited = seconds_since(began);
    std::string cause = fmt::format("rank {} did not connect to {} within {:.1f} s", greeting.from,
                                    to_string(addresses_), waited);
    if (!last_failure_.empty()) cause += "; last refused: " + last_failure_;
    Error error(ErrorCode::timeout, cause);
    error.rank = me_.rank;
    error.host = host_name();
    error.peer = greeting.from;
    return error;
  }

  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        note(error.what());  // its timer drops its connection
      }
    }
  }

  void keep(const Greeting& greeting, int fd) {
    {
      std::lock_guard lock(mutex_);
      auto [at, fresh] = ready_.emplace(key_of(greeting), fd);
      if (!fresh) {
        // The peer dials again only after it gave up the earlier connection.
        close_connection(at->second);
        at->second = fd;
      }
    }
    arrived_.notify_all();
  }

  void note(std::string why) {
    std::lock_guard lock(mutex_);
    refusals_->note(why);
    last_failure_ = std::move(why);
  }

  const Identity me_;
  std::vector<NetAddress> addresses_;
  // For the listener's thread only.
  asio::io_context io_{1};
  std::list<KeyedAcceptor> doors_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Key, int> ready_;
  std::optional<Refusals> refusals_;
  std::string last_failure_;
  std::thread thread_;
};

class AsioListener final : public Listener {
 public:
  AsioListener(const Identity& me, const std::vector<int>& fds)
      : acceptor_(new Acceptor(me, fds)) {}
  const std::vector<NetAddress>& addresses() const override { return acceptor_->addresses(); }
  Result<int> take(const Greeting& greeting, Deadline deadline) override {
    return acceptor_->take(greeting, deadline);
  }

 private:
  OwnedHere<Acceptor> acceptor_;
};

// Listens at all of them with one port, so that a range needs one port per rank; empty, with errno,
// if one cannot be had. The first is waited for while the kernel still tests it (IPv6); another one
// is then left out.
std::vector<int> listen_at(const std::vector<std::string>& hosts, int port) {
  std::vector<int> fds;
  for (const std::string& host : hosts) {
    const SocketAddress at = resolve(host, port).front();
    int fd = fds.empty() ? listen_when_tested(at) : listen_on(at);
    if (fd < 0) {
      if (errno == EADDRNOTAVAIL && !fds.empty()) continue;
      int error = errno;
      for (int other : fds) close_connection(other);
      errno = error;
      return {};
    }
    fds.push_back(fd);
    port = local_address(fd).numeric().port;
  }
  return fds;
}

}  // namespace

std::unique_ptr<Listener> listen(const Identity& me, const std::vector<std::string>& hosts,
                                 const Options& options) {
  // The port that the kernel chose for the first address may be taken at the second.
  constexpr int kTries = 16;
  const bool range = options.ports.first != 0;
  int error = 0;
  for (int i = 0; i <= (range ? options.ports.last - options.ports.first : kTries); ++i) {
    std::vector<int> fds = listen_at(hosts, range ? options.ports.first + i : 0);
    if (!fds.empty()) return std::make_unique<AsioListener>(me, fds);
    error = errno;
    if (error != EADDRINUSE && error != EACCES) break;
  }
  const bool full = range && (error == EADDRINUSE || error == EACCES);
  throw Error(
      ErrorCode::network,
      fmt::format(
          "cannot listen on {}{}: {}{}", fmt::join(hosts, ", "),
          full ? fmt::format(", ports {} to {}", options.ports.first, options.ports.last) : "",
          system_message("bind", error),
          full ? "; widen RINGWOOD_PORT_RANGE (one port per rank and group while it is made)"
               : ""));
}

std::unique_ptr<Listener> listen(const Identity& me, const std::string& host,
                                 const Options& options) {
  return listen(me, std::vector{host}, options);
}

}  // namespace ringwood
