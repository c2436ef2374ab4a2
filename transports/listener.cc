#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <tuple>

#include "transports/asio.h"
#include "transports/fork_guard.h"
#include "transports/handshake_steps.h"
#include "transports/log.h"
#include "transports/sockets.h"
#include "transports/thread.h"

namespace ringwood {
namespace {

using asio::ip::tcp;

constexpr size_t kMostPending = 64;
constexpr Duration kHandshakeTime = std::chrono::seconds(5);
// A crowd of strangers must not push out a peer whose answer is on its way: younger ones are not
// dropped, the next connection waits in the kernel's queue instead.
constexpr Duration kGrace = std::chrono::milliseconds(100);
constexpr Duration kAfterFailedAccept = std::chrono::milliseconds(50);

using Key = std::tuple<uint16_t, uint16_t, int>;  // purpose, channel, from
Key key_of(const Greeting& g) { return {static_cast<uint16_t>(g.purpose), g.channel, g.from}; }

std::string peer_text(const tcp::socket& socket) {
  asio::error_code error;
  auto remote = socket.remote_endpoint(error);
  return error ? "somebody" : to_string({remote.address().to_string(), remote.port()});
}

// One connection whose handshake is not finished. Lives in the listener's thread.
struct Pending {
  Pending(tcp::socket s, const Identity& me)
      : socket(std::move(s)), timer(socket.get_executor()), steps(me) {}
  ~Pending() { close(); }
  void close() {
    over = true;
    timer.cancel();
    if (!socket.is_open()) return;
    asio::error_code error;
    int fd = socket.release(error);
    if (!error) close_connection(fd);
  }
  tcp::socket socket;
  asio::steady_timer timer;
  AcceptSteps steps;
  Bytes in, out;
  Clock::time_point since = Clock::now();
  bool over = false;  // a handler that was already queued has nothing to do
};
using PendingPtr = std::shared_ptr<Pending>;

// What the thread works on; the destructor runs in the process that made it.
class Acceptor {
 public:
  Acceptor(const Identity& me, int fd, NetAddress address)
      : me_(me), address_(std::move(address)), acceptor_(io_), pause_(io_) {
    bool v6 = address_.host.find(':') != std::string::npos;
    acceptor_.assign(v6 ? tcp::v6() : tcp::v4(), fd);
    accept_next();
    thread_ = start_thread("ringwood-accept", [this] { run(); });
  }

  ~Acceptor() {
    io_.stop();
    thread_.join();
    pending_.clear();
    close_connection(acceptor_.release());
    for (auto& [key, fd] : ready_) close_connection(fd);
    if (strangers_ > 1) {
      log(LogLevel::info, "net", fmt::format("{} connections were refused in all", strangers_));
    }
  }

  const NetAddress& address() const { return address_; }

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
    double waited = std::chrono::duration<double>(Clock::now() - began).count();
    std::string cause = fmt::format("rank {} did not connect to {} within {:.1f} s", greeting.from,
                                    to_string(address_), waited);
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
        note_failure(error.what());  // its connection is dropped by its timer
      }
    }
  }

  void accept_next() {
    if (pending_.size() >= kMostPending) {
      auto ripe = pending_.front()->since + kGrace;
      if (Clock::now() < ripe) return pause_until(ripe);
      PendingPtr oldest = pending_.front();
      pending_.pop_front();
      note_refusal(*oldest, "it was the oldest of too many unfinished handshakes");
      oldest->close();
    }
    acceptor_.async_accept([this](asio::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        note_failure("accept: " + error.message());
        return pause_until(Clock::now() + kAfterFailedAccept);
      }
      begin(std::move(socket));
      accept_next();
    });
  }

  void pause_until(Clock::time_point when) {
    paused_ = true;
    pause_.expires_at(when);
    pause_.async_wait([this](asio::error_code error) {
      if (!error) resume();
    });
  }

  void resume() {
    if (!paused_) return;
    paused_ = false;
    pause_.cancel();
    accept_next();
  }

  void begin(tcp::socket socket) {
    adopt_connection(socket.native_handle());
    auto one = std::make_shared<Pending>(std::move(socket), me_);
    pending_.push_back(one);
    one->timer.expires_after(kHandshakeTime);
    one->timer.async_wait([this, one](asio::error_code error) {
      if (!error && !one->over) refuse(one, "it did not finish the handshake in 5 s");
    });
    read_next(one);
  }

  void read_next(const PendingPtr& one) {
    one->in.resize(one->steps.wanted());
    asio::async_read(one->socket, asio::buffer(one->in),
                     [this, one](asio::error_code error, size_t) {
                       if (one->over) return;
                       if (error)
                         return refuse(one, "it closed the connection during the handshake");
                       answer(one);
                     });
  }

  void answer(const PendingPtr& one) {
    one->out = one->steps.take(one->in);
    asio::async_write(one->socket, asio::buffer(one->out),
                      [this, one](asio::error_code error, size_t) {
                        if (one->over) return;
                        if (error)
                          return refuse(one, "it closed the connection during the handshake");
                        if (one->steps.wanted() > 0) return read_next(one);
                        finish(one);
                      });
  }

  void finish(const PendingPtr& one) {
    auto result = one->steps.result();
    if (!result.ok()) return refuse(one, result.error().cause);
    asio::error_code error;
    int fd = one->socket.release(error);
    if (error) return refuse(one, "release: " + error.message());
    {
      std::lock_guard lock(mutex_);
      auto [at, fresh] = ready_.emplace(key_of(*result), fd);
      if (!fresh) {
        // The peer dials again only after it gave the earlier connection up.
        close_connection(at->second);
        at->second = fd;
      }
    }
    arrived_.notify_all();
    drop(one);
  }

  void refuse(const PendingPtr& one, const std::string& why) {
    note_refusal(*one, why);
    drop(one);
  }

  void drop(const PendingPtr& one) {
    one->close();
    pending_.remove(one);
    resume();
  }

  void note_refusal(const Pending& one, const std::string& why) {
    note_failure(fmt::format("{}: {}", peer_text(one.socket), why));
  }

  void note_failure(std::string why) {
    std::lock_guard lock(mutex_);
    if (strangers_++ == 0) {
      log(LogLevel::warn, "net",
          fmt::format("a connection to {} was refused: {}; more are only counted",
                      to_string(address_), why));
    }
    last_failure_ = std::move(why);
  }

  const Identity me_;
  const NetAddress address_;
  // The listener's thread only.
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  bool paused_ = false;
  std::list<PendingPtr> pending_;  // oldest first

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Key, int> ready_;
  size_t strangers_ = 0;
  std::string last_failure_;
  std::thread thread_;
};

class AsioListener final : public Listener {
 public:
  AsioListener(const Identity& me, int fd, NetAddress address)
      : acceptor_(new Acceptor(me, fd, std::move(address))) {}
  NetAddress address() const override { return acceptor_->address(); }
  Result<int> take(const Greeting& greeting, Deadline deadline) override {
    return acceptor_->take(greeting, deadline);
  }

 private:
  OwnedHere<Acceptor> acceptor_;
};

}  // namespace

std::unique_ptr<Listener> listen(const Identity& me, const std::string& host,
                                 const Options& options) {
  int error = 0;
  for (int port = options.port_first; port <= options.port_last; ++port) {
    int fd = listen_on(resolve(host, port).front());
    if (fd < 0) {
      error = errno;
      if (error == EADDRINUSE || error == EACCES) continue;
      break;
    }
    SocketAddress here;
    here.bytes = sizeof(here.storage);
    getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes);
    return std::make_unique<AsioListener>(me, fd, here.numeric());
  }
  bool range = options.port_first != 0 && (error == EADDRINUSE || error == EACCES);
  throw Error(
      ErrorCode::network,
      fmt::format(
          "cannot listen on {}{}: {}{}", host,
          range ? fmt::format(", ports {} to {}", options.port_first, options.port_last) : "",
          system_message("bind", error),
          range ? "; widen RINGWOOD_PORT_RANGE (one port per rank and group while it is made)"
                : ""));
}

}  // namespace ringwood
