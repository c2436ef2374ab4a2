#include "transports/store_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "transports/asio.h"
#include "transports/fork_guard.h"
#include "transports/log.h"
#include "transports/net.h"
#include "transports/sockets.h"
#include "transports/store_value.h"
#include "transports/store_wire.h"
#include "transports/thread.h"

namespace ringwood {
namespace {

using asio::ip::tcp;
using namespace store_wire;

constexpr size_t kMostStored = size_t{256} << 20;  // keys and values of all clients
constexpr Duration kAfterFailedAccept = std::chrono::milliseconds(50);

struct Session {
  Session(tcp::socket s) : socket(std::move(s)), timer(socket.get_executor()) {}
  ~Session() { close(); }
  void close() {
    open = false;
    timer.cancel();
    if (!socket.is_open()) return;
    asio::error_code error;
    int fd = socket.release(error);
    if (!error) close_connection(fd);
  }
  tcp::socket socket;
  asio::steady_timer timer;
  RequestHeader header;
  std::string in, out;
  std::string awaited;  // the key of a get that waits
  bool waiting = false;
  bool open = true;  // handlers that were queued before a close have nothing to do
};
using SessionPtr = std::shared_ptr<Session>;

class Server {
 public:
  explicit Server(const std::vector<int>& fds) {
    for (int fd : fds) {
      SocketAddress here;
      here.bytes = sizeof(here.storage);
      getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes);
      if (address_.port == 0) address_ = here.is_any() ? here.loopback().numeric() : here.numeric();
      acceptors_.emplace_back(io_);
      acceptors_.back().assign(here.family() == AF_INET6 ? tcp::v6() : tcp::v4(), fd);
      accept_next(acceptors_.back());
    }
    thread_ = start_thread("ringwood-store", [this] { run(); });
  }

  ~Server() {
    io_.stop();
    thread_.join();
    for (const SessionPtr& session : sessions_) session->close();
    for (tcp::acceptor& acceptor : acceptors_) close_connection(acceptor.release());
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

  void accept_next(tcp::acceptor& acceptor) {
    acceptor.async_accept([this, &acceptor](asio::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return accept_later(acceptor, error.message());
      adopt_connection(socket.native_handle());
      auto session = std::make_shared<Session>(std::move(socket));
      sessions_.insert(session);
      read_header(session);
      accept_next(acceptor);
    });
  }

  // Out of descriptors, most likely: clients that end will free some.
  void accept_later(tcp::acceptor& acceptor, const std::string& why) {
    log(LogLevel::warn, "store", fmt::format("cannot accept a client: {}", why));
    auto timer = std::make_shared<asio::steady_timer>(io_, kAfterFailedAccept);
    timer->async_wait([this, &acceptor, timer](asio::error_code error) {
      if (!error) accept_next(acceptor);
    });
  }

  void drop(const SessionPtr& session) {
    stop_waiting(session);
    session->close();
    sessions_.erase(session);
  }

  void read_header(const SessionPtr& session) {
    session->in.resize(kRequestHeader);
    asio::async_read(session->socket, asio::buffer(session->in),
                     [this, session](asio::error_code error, size_t) {
                       if (!session->open) return;
                       if (error || !decode_request_header(session->in, session->header))
                         return drop(session);
                       read_body(session);
                     });
  }

  void read_body(const SessionPtr& session) {
    session->in.resize(session->header.key_bytes + session->header.value_bytes);
    asio::async_read(session->socket, asio::buffer(session->in),
                     [this, session](asio::error_code error, size_t) {
                       if (!session->open) return;
                       if (error) return drop(session);
                       carry_out(session);
                     });
  }

  void carry_out(const SessionPtr& session) {
    std::string key = session->in.substr(0, session->header.key_bytes);
    std::string value = session->in.substr(session->header.key_bytes);
    auto found = values_.find(key);
    bool exists = found != values_.end();
    switch (session->header.operation) {
      case Operation::set: return answer_set(session, key, value, "");
      case Operation::has: return answer(session, exists ? Answer::ok : Answer::missing, "");
      case Operation::get:
        if (exists) return answer(session, Answer::ok, found->second);
        return wait(session, key, store_wire::get<int64_t>(value, 0));
      case Operation::remove:
        if (exists) forget(found);
        return answer(session, Answer::ok, "");
      case Operation::add: break;
    }
    try {
      auto sum = add_to_value(key, exists ? found->second : "", store_wire::get<int64_t>(value, 0));
      answer_set(session, key, std::to_string(sum), std::to_string(sum));
    } catch (const Error& error) {
      answer(session, Answer::refused, error.cause);
    }
  }

  void answer_set(const SessionPtr& session, const std::string& key, const std::string& value,
                  const std::string& payload) {
    if (stored_ + key.size() + value.size() > kMostStored) {
      return answer(session, Answer::refused, fmt::format("the store is full ({} bytes)", stored_));
    }
    if (auto found = values_.find(key); found != values_.end()) forget(found);
    stored_ += key.size() + value.size();
    values_[key] = value;
    auto waiters = waiters_.find(key);
    std::set<SessionPtr> woken;
    if (waiters != waiters_.end()) woken = waiters->second;
    for (const SessionPtr& waiter : woken) {
      stop_waiting(waiter);
      answer(waiter, Answer::ok, value);
    }
    answer(session, Answer::ok, payload);
  }

  void forget(std::map<std::string, std::string>::iterator found) {
    stored_ -= found->first.size() + found->second.size();
    values_.erase(found);
  }

  void answer(const SessionPtr& session, Answer answer, std::string_view payload) {
    session->out = encode_response(answer, payload);
    asio::async_write(session->socket, asio::buffer(session->out),
                      [this, session](asio::error_code error, size_t) {
                        if (!session->open) return;
                        if (error) return drop(session);
                        read_header(session);
                      });
  }

  void wait(const SessionPtr& session, const std::string& key, int64_t wait_ms) {
    if (wait_ms == 0) return answer(session, Answer::missing, "");
    session->awaited = key;
    session->waiting = true;
    waiters_[key].insert(session);
    if (wait_ms > 0) {
      session->timer.expires_after(
          std::chrono::milliseconds(std::min<int64_t>(wait_ms, int64_t{1} << 40)));
      session->timer.async_wait([this, session](asio::error_code error) {
        if (error || !session->open || !session->waiting) return;
        stop_waiting(session);
        answer(session, Answer::missing, "");
      });
    }
    // Whatever comes while it waits is the end of the connection or a breach of the format.
    session->socket.async_wait(tcp::socket::wait_read, [this, session](asio::error_code error) {
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

  asio::io_context io_{1};
  std::list<tcp::acceptor> acceptors_;
  std::set<SessionPtr> sessions_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::set<SessionPtr>> waiters_;
  size_t stored_ = 0;
  NetAddress address_;
  std::thread thread_;
};

class AsioStoreServer final : public StoreServer {
 public:
  explicit AsioStoreServer(const std::vector<int>& fds) : server_(new Server(fds)) {}
  NetAddress address() const override { return server_->address(); }

 private:
  OwnedHere<Server> server_;
};

// ---- where to listen ---------------------------------------------------------------------------

bool is_ours(SocketAddress address) {
  address.set_port(0);
  int fd = listen_on(address);
  close_connection(fd);
  return fd >= 0;
}

std::vector<SocketAddress> addresses_to_serve(const std::string& host, int port) {
  std::vector<SocketAddress> ours;
  bool only_loopback = true;
  for (const SocketAddress& address : resolve(host, port)) {
    if (!is_ours(address)) continue;
    ours.push_back(address);
    only_loopback = only_loopback && address.is_loopback();
  }
  bool name_of_loopback = host.find("localhost") != host.npos || is_numeric(host);
  if (!ours.empty() && (!only_loopback || name_of_loopback)) return ours;
  log(LogLevel::info, "store",
      fmt::format("{} {}; serving on all addresses", host,
                  ours.empty() ? "is no address of this host" : "means loopback here"));
  bool v6 = is_ours(SocketAddress::any(AF_INET6, 0));
  return {SocketAddress::any(v6 ? AF_INET6 : AF_INET, port)};
}

// Port 0 becomes the port that the first address got.
std::vector<int> listen_on_all(const std::string& host, int port) {
  std::vector<int> fds;
  for (SocketAddress address : addresses_to_serve(host, port)) {
    address.set_port(port);
    int fd = listen_on(address);
    if (fd < 0) {
      std::string why = system_message("listen");
      for (int other : fds) close_connection(other);
      throw Error(ErrorCode::network,
                  fmt::format("cannot listen on {}: {}; choose another MASTER_PORT",
                              to_string({host, port}), why));
    }
    fds.push_back(fd);
    SocketAddress here;
    here.bytes = sizeof(here.storage);
    getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes);
    port = here.numeric().port;
  }
  return fds;
}

}  // namespace

std::unique_ptr<StoreServer> serve_store(const std::string& host, int port) {
  return std::make_unique<AsioStoreServer>(listen_on_all(host, port));
}

}  // namespace ringwood
