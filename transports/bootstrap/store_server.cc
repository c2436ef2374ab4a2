#include "transports/bootstrap/store_server.h"

#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "transports/base/asio.h"
#include "transports/base/fork_guard.h"
#include "transports/base/host_watch.h"
#include "transports/base/log.h"
#include "transports/base/thread.h"
#include "transports/bootstrap/keyed_acceptor.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/sockets.h"
#include "transports/bootstrap/store_messages.h"
#include "transports/bootstrap/store_value.h"
#include "transports/bootstrap/strangers/refusals.h"

namespace ringwood {
namespace {

using namespace store_messages;

// Longer than a client itself waits.
constexpr Duration kRequestTime = std::chrono::seconds(60);
// The kernel keeps the port of a connection for 60 s after it was closed.
constexpr Duration kPortPatience = std::chrono::seconds(65);
constexpr size_t kPiece = size_t{16} << 10;       // of a request, as it is read
constexpr size_t kKeptBuffer = size_t{64} << 10;  // of a client that does nothing

struct Session {
  Session(asio::io_context& io, int fd)
      : socket(io, {local_address(fd).family(), IPPROTO_TCP}, fd), timer(io) {}
  ~Session() { close(); }
  void close() {
    open = false;
    timer.cancel();
    if (!socket.is_open()) return;
    asio::error_code error;
    int fd = socket.release(error);
    if (!error) close_connection(fd);
  }
  asio::generic::stream_protocol::socket socket;
  // Of a get that waits, of a request or a reply on its way, or until the first request.
  asio::steady_timer timer;
  Clock::time_point heard = Clock::now();
  RequestHeader header;
  std::string in, out;
  size_t unfinished = 0;  // bytes in `in` of a request that is not whole
  std::string awaited;    // the key of a get that waits
  bool waiting = false;
  bool open = true;  // handlers that were queued before a close have nothing to do
};
using SessionPtr = std::shared_ptr<Session>;

class Server {
 public:
  Server(const std::vector<int>& fds, const Identity& me, const StoreLimits& limits)
      : me_(me), limits_(limits) {
    SocketAddress here = local_address(fds.front());
    address_ = here.is_any() ? here.loopback().numeric() : here.numeric();
    refusals_.emplace("store", to_string(address_));
    for (int fd : fds) {
      doors_.emplace_back(
          io_, fd, me_,
          KeyedAcceptor::Events{[this](const Greeting& greeting, int c) { welcome(greeting, c); },
                                [this](const std::string& why) { refusals_->note(why); },
                                [this] { return sessions_.size() < limits_.connections; }});
    }
    thread_ = start_thread("ringwood-store", [this] { run(); });
  }

  ~Server() {
    io_.stop();
    thread_.join();
    doors_.clear();
    for (const SessionPtr& session : sessions_) session->close();
  }

  const NetAddress& address() const { return address_; }

 private:
  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        log(LogLevel::error, "store", fmt::format("a request failed: {}", error.what()));
      }
    }
  }

  void welcome(const Greeting& greeting, int fd) {
    if (greeting.purpose != Purpose::store) return close_connection(fd);
    keep_alive(fd, kStoreIdle, kStorePatience);
    SessionPtr session;
    try {
      session = std::make_shared<Session>(io_, fd);
    } catch (...) {
      close_connection(fd);
      throw;
    }
    sessions_.insert(session);
    limit_time(session);
    read_more(session);
  }

  void drop(const SessionPtr& session) {
    stop_waiting(session);
    forget_request(session);
    session->close();
    sessions_.erase(session);
  }

  // Drops the session if the other side does not do its part in time.
  void limit_time(const SessionPtr& session) {
    session->timer.expires_after(limits_.time);
    session->timer.async_wait([this, session](asio::error_code error) {
      if (!error && session->open && session->timer.expiry() <= Clock::now()) drop(session);
    });
  }

  // Memory is allocated for bytes that have come, not for those that were announced.
  void read_more(const SessionPtr& session) {
    const size_t wanted = wanted_bytes(*session), at = session->in.size();
    session->in.resize(at + std::min(wanted - at, kPiece));
    session->socket.async_read_some(asio::buffer(session->in.data() + at, session->in.size() - at),
                                    [this, session, at](asio::error_code error, size_t bytes) {
                                      if (!session->open) return;
                                      if (error) return drop(session);
                                      session->in.resize(at + bytes);
                                      if (at == 0) limit_time(session);
                                      count_in(session, bytes);
                                      take_in(session);
                                    });
  }

  // Bytes of a request; makes room for them.
  void count_in(const SessionPtr& session, size_t bytes) {
    session->heard = Clock::now();
    session->unfinished += bytes;
    unfinished_ += bytes;
    while (unfinished_ > limits_.unfinished_bytes) {
      SessionPtr silent;
      for (const SessionPtr& one : sessions_)
        if (one != session && one->unfinished > 0 && (!silent || one->heard < silent->heard))
          silent = one;
      if (!silent) return;
      drop(silent);
    }
  }

  // It is whole, or its client is gone.
  void forget_request(const SessionPtr& session) {
    unfinished_ -= std::exchange(session->unfinished, 0);
  }

  static size_t wanted_bytes(const Session& session) {
    if (session.in.size() < kRequestHeader) return kRequestHeader;
    return kRequestHeader + session.header.key_bytes + session.header.value_bytes;
  }

  void take_in(const SessionPtr& session) {
    if (session->in.size() == kRequestHeader && !decode(session->in, session->header))
      return drop(session);
    if (session->in.size() < wanted_bytes(*session) || session->in.size() < kRequestHeader)
      return read_more(session);
    session->timer.cancel();
    forget_request(session);
    carry_out(session);
  }

  void next_request(const SessionPtr& session) {
    session->timer.cancel();
    for (std::string* buffer : {&session->in, &session->out}) {
      buffer->clear();
      if (buffer->capacity() > kKeptBuffer) buffer->shrink_to_fit();
    }
    read_more(session);
  }

  void carry_out(const SessionPtr& session) {
    std::string key = session->in.substr(kRequestHeader, session->header.key_bytes);
    std::string value = session->in.substr(kRequestHeader + session->header.key_bytes);
    const auto number = ByteReader(value).number<int64_t>();  // of a get or an add
    auto found = values_.find(key);
    bool exists = found != values_.end();
    switch (session->header.operation) {
      case Operation::set: return reply_set(session, key, value, "");
      case Operation::has: return reply(session, exists ? Reply::ok : Reply::missing, "");
      case Operation::get:
        if (exists) return reply(session, Reply::ok, found->second);
        return wait(session, key, number);
      case Operation::remove:
        if (exists) forget(found);
        return reply(session, Reply::ok, "");
      case Operation::add: break;
    }
    try {
      auto sum = add_to_value(key, exists ? found->second : "", number);
      reply_set(session, key, std::to_string(sum), std::to_string(sum));
    } catch (const Error& error) {
      reply(session, Reply::refused, error.cause);
    }
  }

  void reply_set(const SessionPtr& session, const std::string& key, const std::string& value,
                 const std::string& payload) {
    const bool fresh = values_.count(key) == 0;
    if (stored_ + key.size() + value.size() > limits_.bytes ||
        (fresh && values_.size() >= limits_.keys)) {
      return reply(
          session, Reply::refused,
          fmt::format("the store is full ({} keys, {} bytes); does every user remove what it set?",
                      values_.size(), stored_));
    }
    if (auto found = values_.find(key); found != values_.end()) forget(found);
    stored_ += key.size() + value.size();
    values_[key] = value;
    auto waiters = waiters_.find(key);
    std::set<SessionPtr> woken;
    if (waiters != waiters_.end()) woken = waiters->second;
    for (const SessionPtr& waiter : woken) {
      stop_waiting(waiter);
      reply(waiter, Reply::ok, value);
    }
    reply(session, Reply::ok, payload);
  }

  void forget(std::map<std::string, std::string>::iterator found) {
    stored_ -= found->first.size() + found->second.size();
    values_.erase(found);
  }

  void reply(const SessionPtr& session, Reply reply, std::string_view payload) {
    session->out = encode_response(reply, payload);
    limit_time(session);
    asio::async_write(session->socket, asio::buffer(session->out),
                      [this, session](asio::error_code error, size_t) {
                        if (!session->open) return;
                        if (error) return drop(session);
                        next_request(session);
                      });
  }

  void wait(const SessionPtr& session, const std::string& key, int64_t wait_ms) {
    if (wait_ms == 0) return reply(session, Reply::missing, "");
    session->awaited = key;
    session->waiting = true;
    waiters_[key].insert(session);
    if (wait_ms > 0) {
      session->timer.expires_after(
          std::chrono::milliseconds(std::min<int64_t>(wait_ms, int64_t{1} << 40)));
      session->timer.async_wait([this, session](asio::error_code error) {
        if (error || !session->open || !session->waiting) return;
        stop_waiting(session);
        reply(session, Reply::missing, "");
      });
    }
    // Anything that comes while it waits is the end of the connection or a breach of the format.
    session->socket.async_wait(asio::socket_base::wait_read,
                               [this, session](asio::error_code error) {
                                 if (!error && session->open && session->waiting) drop(session);
                               });
  }

  void stop_waiting(const SessionPtr& session) {
    if (!session->waiting) return;
    session->waiting = false;
    session->timer.cancel();
    asio::error_code ignored;
    session->socket.cancel(ignored);
    auto waiters = waiters_.find(session->awaited);
    waiters->second.erase(session);
    if (waiters->second.empty()) waiters_.erase(waiters);
  }

  const Identity me_;
  const StoreLimits limits_;
  asio::io_context io_{1};
  std::list<KeyedAcceptor> doors_;
  std::optional<Refusals> refusals_;
  std::set<SessionPtr> sessions_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::set<SessionPtr>> waiters_;
  size_t stored_ = 0, unfinished_ = 0;
  NetAddress address_;
  std::thread thread_;
};

class AsioStoreServer final : public StoreServer {
 public:
  AsioStoreServer(const std::vector<int>& fds, const Identity& me, const StoreLimits& limits)
      : server_(new Server(fds, me, limits)) {}
  NetAddress address() const override { return server_->address(); }

 private:
  OwnedHere<Server> server_;
};

[[noreturn]] void cannot_listen(const NetAddress& at, const std::string& why) {
  throw Error(ErrorCode::network, fmt::format("cannot listen on {}: {}; choose another MASTER_PORT",
                                              to_string(at), why));
}

// Throws naming `as`. `deadline`: until then an outgoing connection may have the port.
int listen_when_free(const SocketAddress& at, const NetAddress& as, Deadline deadline) {
  int fd = listen_on(at);
  if (fd >= 0) return fd;
  const bool in_use = errno == EADDRINUSE;
  const std::string why = system_message("listen");
  if (!in_use || deadline.passed() || is_served(at)) cannot_listen(as, why);
  log(LogLevel::warn, "store",
      fmt::format("an outgoing connection of this host has {}; waiting for it", to_string(as)));
  const auto began = Clock::now();
  const Deadline patience = deadline.within(kPortPatience);
  for (Backoff backoff; (fd = listen_on(at)) < 0; backoff.sleep(patience)) {
    if (errno != EADDRINUSE) cannot_listen(as, system_message("listen"));
    if (patience.passed())
      cannot_listen(as, fmt::format("{}, by an outgoing connection of this host, for {:.1f} s", why,
                                    seconds_since(began)));
  }
  return fd;
}

// Port 0 becomes the port that the first address got.
std::vector<int> listen_on_all(const std::string& host, int port, const Options& options,
                               Deadline deadline) {
  const bool any_port = port == 0;
  std::vector<int> fds;
  try {
    for (SocketAddress address : addresses_to_serve(host, port, options)) {
      address.set_port(port);
      fds.push_back(listen_when_free(address, {host, port},
                                     any_port ? Deadline::after(Duration::zero()) : deadline));
      port = local_address(fds.back()).numeric().port;
    }
  } catch (...) {
    for (int fd : fds) close_connection(fd);
    throw;
  }
  return fds;
}

}  // namespace

StoreLimits store_limits(int world_size) {
  // Ranks call the store from a few threads each; setting up a group leaves a few keys per pair.
  const size_t ranks = world_size > 0 ? static_cast<size_t>(world_size) : 256;
  return {.connections = 64 + 8 * ranks,
          .keys = 65536 + 4 * ranks * ranks,
          .bytes = (size_t{64} << 20) + (ranks << 20),
          .unfinished_bytes = (size_t{16} << 20) + (ranks << 16),
          .time = kRequestTime};
}

Identity store_identity(const Options& options, bool server, int world_size) {
  Identity me;
  if (!options.key_file.empty()) me.key = key_from_file(options.key_file);
  if (server) me.session = random_session();
  me.job = job_of(options, world_size);
  me.size = 2;
  me.rank = server ? 0 : 1;
  return me;
}

Greeting store_greeting() { return {Purpose::store, 0, 1, 0}; }

std::unique_ptr<StoreServer> serve_store(const std::string& host, int port, const Options& options,
                                         const StoreLimits& limits, int world_size,
                                         Deadline deadline) {
  const Identity me = store_identity(options, true, world_size);
  return std::make_unique<AsioStoreServer>(listen_on_all(host, port, options, deadline), me,
                                           limits);
}

}  // namespace ringwood
