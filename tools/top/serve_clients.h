// The connections of `ringwood top --serve`: of Prometheus, and of clients of RAS.
//
// A request is at most kMaxRequest bytes. A connection that is silent, or does not read, ends after
// a while; one that only listens for events (MONITOR) does not, but when its client has left.
// Used in the thread of its io_context.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <string>

#include "tools/top/http.h"
#include "tools/top/ras/ras.h"
#include "transports/base/asio.h"

namespace ringwood::tools {

// What the clients are told.
struct Shown {
  std::shared_ptr<const Sample> sample;  // null: none
  std::string slurm_job;
};

// It lives as long as one of its operations is pending.
class Client : public std::enable_shared_from_this<Client> {
 public:
  // `own_user`: a process of this user or of root, on this host.
  Client(asio::ip::tcp::socket socket, bool own_user);
  virtual ~Client() = default;

  void read();
  void write(std::string text);
  void close();
  bool open() const { return socket_.is_open(); }
  bool own_user() const { return own_user_; }
  virtual void tell(const JobEvent&) {}

 protected:
  // Takes what it can use off `text`. False: it wants no more.
  virtual bool take(std::string& text) = 0;
  virtual bool waits_forever() const { return false; }

 private:
  static constexpr size_t kMaxRequest = 8 << 10, kMaxUnread = 64;

  std::chrono::seconds patience() const;
  void took(bool over);
  void write_next();

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  const bool own_user_;
  std::array<char, 1024> in_{};
  std::string text_;
  std::deque<std::string> out_;
  bool ending_ = false;
};

class HttpClient final : public Client {
 public:
  // `shown` and `token` outlive it.
  HttpClient(asio::ip::tcp::socket socket, bool own_user, const Shown& shown,
             const std::string& token)
      : Client(std::move(socket), own_user), shown_(shown), token_(token) {}

 private:
  bool take(std::string& text) override;

  const Shown& shown_;
  const std::string& token_;
};

class RasClient final : public Client {
 public:
  RasClient(asio::ip::tcp::socket socket, const Shown& shown)
      : Client(std::move(socket), true), session_([&shown] { return shown.sample.get(); }) {}
  void tell(const JobEvent& event) override;

 private:
  bool take(std::string& text) override;
  bool waits_forever() const override { return session_.monitors(); }

  RasSession session_;
};

}  // namespace ringwood::tools
