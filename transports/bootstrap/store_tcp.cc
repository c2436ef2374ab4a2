#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

#include "transports/base/descriptors.h"
#include "transports/base/fork_guard.h"
#include "transports/base/host_watch.h"
#include "transports/base/log.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/sockets.h"
#include "transports/bootstrap/store.h"
#include "transports/bootstrap/store_messages.h"
#include "transports/bootstrap/store_server.h"
#include "transports/bootstrap/store_value.h"

namespace ringwood {
namespace {

using namespace store_messages;

// Beyond the deadline of a get, for the server's own "not there" to arrive.
constexpr Duration kSlack = std::chrono::seconds(1);

constexpr size_t kPiece = size_t{64} << 10;
constexpr Duration kHandshakeTime = std::chrono::seconds(5);
constexpr size_t kOwnFds = 16;  // the server's ports, and what its thread waits by

struct Response {
  Reply reply = Reply::ok;
  std::string payload;
};

// One connection, used by one call at a time.
class Connection {
 public:
  Connection(int fd, std::string server) : fd_(fd), server_(std::move(server)) {
    keep_alive(fd, kStoreIdle, kStorePatience);
  }
  ~Connection() { close_connection(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Response ask(const std::string& request, Deadline deadline) {
    send_all(request, deadline);
    ResponseHeader header;
    if (!decode(recv_all(kResponseHeader, deadline), header))
      throw Error(ErrorCode::network,
                  fmt::format("the server at {} is not a Ringwood store", server_));
    return {header.reply, recv_all(header.bytes, deadline)};
  }

 private:
  void send_all(std::string_view data, Deadline deadline) {
    while (!data.empty()) {
      ssize_t sent = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        data.remove_prefix(static_cast<size_t>(sent));
      } else {
        handle_failure("send", POLLOUT, deadline);
      }
    }
  }

  std::string recv_all(size_t bytes, Deadline deadline) {
    std::string data;
    for (size_t at = 0; at < bytes;) {
      data.resize(std::min(bytes, at + kPiece));  // as they arrive
      ssize_t got = recv(fd_, data.data() + at, data.size() - at, 0);
      if (got == 0) {
        throw Error(ErrorCode::network,
                    fmt::format("the store at {} closed the connection; did rank 0 end?", server_));
      }
      if (got > 0) {
        at += static_cast<size_t>(got);
      } else {
        handle_failure("recv", POLLIN, deadline);
      }
    }
    return data;
  }

  // Waits if the call would block; throws for any other failure.
  void handle_failure(const char* call, short events, Deadline deadline) {
    if (errno == EINTR) return;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      throw Error(ErrorCode::network, fmt::format("the store at {} is lost: {}; did rank 0 end?",
                                                  server_, system_message(call)));
    }
    pollfd one{fd_, events, 0};
    if (poll(&one, 1, deadline.left_ms()) == 0 && deadline.passed()) {
      throw Error(ErrorCode::timeout, fmt::format("the store at {} does not reply", server_));
    }
  }

  const int fd_;
  const std::string server_;
};

// A call takes a free connection or opens one, so that a get that waits does not delay a set of
// another thread.
class TcpStore final : public Store {
 public:
  TcpStore(const std::string& host, int port, bool serve, Deadline deadline, const Options& options,
           int world_size)
      : host_(host), server_at_{host, port}, me_(store_identity(options, false, world_size)) {
    if (serve) {
      if (world_size > 0)
        make_room_for_descriptors(static_cast<size_t>(world_size) + kOwnFds,
                                  "the ranks at the store");
      server_ = serve_store(host, port, options, store_limits(world_size), world_size, deadline);
      server_at_ = server_->address();
    }
    give_back(open(deadline, deadline));
    // Asks at once: the server bears only for a time with who never does (StoreLimits).
    ask(Operation::has, "", "", deadline);
  }

  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    ask(Operation::set, key, value, deadline);
  }

  std::string get(const std::string& key, Deadline deadline) override {
    auto began = Clock::now();
    do {
      const int64_t wait_ms = deadline.left_ms();
      const Deadline reply = Deadline::after(std::chrono::milliseconds(wait_ms) + kSlack);
      try {
        Response response = ask(Operation::get, key, encode(Number{wait_ms}), reply, reply);
        if (response.reply == Reply::ok) return response.payload;
      } catch (const Error& error) {
        if (error.code != ErrorCode::timeout) throw;
        throw key_timeout(key, began, fmt::format("at {}, which does not reply,", name()));
      }
    } while (!deadline.passed());
    throw key_timeout(key, began, "at " + name());
  }

  bool has(const std::string& key, Deadline deadline) override {
    return ask(Operation::has, key, "", deadline).reply == Reply::ok;
  }

  int64_t add(const std::string& key, int64_t delta, Deadline deadline) override {
    return add_to_value(key, ask(Operation::add, key, encode(Number{delta}), deadline).payload, 0);
  }

  // With a deadline that has passed: one attempt, and the least time.
  void remove(const std::string& key) override {
    if (lost_) return;
    try {
      ask(Operation::remove, key, "", Deadline::after(Duration::zero()));
    } catch (const Error& error) {
      if (error.code == ErrorCode::invalid_argument) throw;
    }
  }

  std::string master_address() const override { return host_; }
  int served_port() const { return server_ ? server_at_.port : 0; }

 private:
  std::string name() const { return to_string({host_, server_at_.port}); }

  template <class Text>
  static void tell(Text&& text) {
    if (log_shows(LogLevel::debug)) log(LogLevel::debug, "store", text());
  }

  // Tries until the deadline, but at least once; an attempt takes until `attempt` at most.
  std::unique_ptr<Connection> open(Deadline deadline, Deadline attempt) {
    auto began = Clock::now();
    Backoff backoff;
    for (int number = 1;; ++number) {
      Connected connected = connect(attempt);
      if (connected.fd >= 0) {
        tell([&] {
          return fmt::format("connected to {} after {:.3f} s, by attempt {}", name(),
                             seconds_since(began), number);
        });
        return std::make_unique<Connection>(connected.fd, name());
      }
      if (!connected.may_retry || deadline.passed()) {
        throw Error(
            ErrorCode::network,
            fmt::format("cannot reach the store at {} within {:.1f} s: {}; is rank 0 running "
                        "there and the port open?",
                        name(), seconds_since(began), connected.failure));
      }
      tell([&] {
        return fmt::format("attempt {} to reach {} failed: {}; tries for {:.1f} s more", number,
                           name(), connected.failure, seconds_in(deadline.left()));
      });
      backoff.sleep(deadline);
    }
  }

  // Tries once, the handshake included. Throws if the store refuses this process.
  Connected connect(Deadline deadline) {
    Connected connected;
    try {
      connected = connect_once(resolve(server_at_.host, server_at_.port), deadline);
    } catch (const Error& error) {
      connected.failure = error.cause;
    }
    if (connected.fd < 0) return connected;
    std::unique_lock lock(mutex_);
    Identity me = me_;
    lock.unlock();
    Status shaken = dial_handshake(connected.fd, me, store_greeting(),
                                   deadline.within(kHandshakeTime), &me.session);
    if (shaken) {
      lock.lock();
      me_.session = me.session;
      return connected;
    }
    const Error& why = shaken.error();
    close_connection(connected.fd);
    if (why.code != ErrorCode::network && why.code != ErrorCode::timeout)
      throw Error(ErrorCode::network,
                  fmt::format("cannot join the store at {}: {}", name(), why.cause));
    return {-1, why.cause, true};
  }

  Response ask(Operation operation, const std::string& key, const std::string& value,
               Deadline deadline) {
    return ask(operation, key, value, deadline, deadline.not_before(kMinTime));
  }

  // Opens a connection, if none is free, until the deadline; the reply must come before `reply`.
  Response ask(Operation operation, const std::string& key, const std::string& value,
               Deadline deadline, Deadline reply) {
    if (key.size() > kMaxKey || value.size() > kMaxValue) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("store: a key has at most {} bytes and a value {}; these have {} and {}",
                      kMaxKey, kMaxValue, key.size(), value.size()));
    }
    Response response = reached(encode_request(operation, key, value), deadline, reply);
    if (response.reply == Reply::refused)
      throw Error(ErrorCode::invalid_argument, response.payload);
    return response;
  }

  // Notes whether the server could be reached.
  Response reached(const std::string& request, Deadline deadline, Deadline reply) try {
    auto connection = borrow(deadline, reply);
    Response response = connection->ask(request, reply);
    give_back(std::move(connection));
    lost_ = false;
    return response;
  } catch (const Error&) {
    lost_ = true;
    throw;
  }

  std::unique_ptr<Connection> borrow(Deadline deadline, Deadline attempt) {
    {
      std::lock_guard lock(mutex_);
      // In a forked child the parent's connections were closed.
      if (forked_since(pid_)) free_.clear();
      pid_ = current_pid();
      if (!free_.empty()) {
        auto connection = std::move(free_.back());
        free_.pop_back();
        return connection;
      }
    }
    return open(deadline, attempt);
  }

  void give_back(std::unique_ptr<Connection> connection) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(connection));
  }

  const std::string host_;
  std::unique_ptr<StoreServer> server_;
  NetAddress server_at_;
  std::atomic<bool> lost_{false};  // the last call did not reach the server
  std::mutex mutex_;
  Identity me_;  // with the session of the server, once that is known
  int pid_ = current_pid();
  std::vector<std::unique_ptr<Connection>> free_;
};

}  // namespace

std::shared_ptr<Store> tcp_store(const std::string& host, int port, bool serve, Deadline deadline) {
  return tcp_store(host, port, serve, deadline, Options());
}

std::shared_ptr<Store> tcp_store(const std::string& host, int port, bool serve, Deadline deadline,
                                 const Options& options, int world_size) {
  return std::make_shared<TcpStore>(host, port, serve, deadline, options, world_size);
}

int tcp_store_port(const Store& store) {
  auto* tcp = dynamic_cast<const TcpStore*>(&store);
  return tcp ? tcp->served_port() : 0;
}

}  // namespace ringwood
