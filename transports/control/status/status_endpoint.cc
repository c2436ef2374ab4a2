#include "transports/control/status/status_endpoint.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "transports/base/log.h"

namespace ringwood {
namespace {

constexpr std::chrono::seconds kPatience{60};
// Where there is no descriptor left for a connection, it still waits, and the socket stays ready.
constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace

// One connection.
class StatusEndpoint::Watcher final : public std::enable_shared_from_this<Watcher> {
 public:
  Watcher(asio::io_context& io, OwnedFd fd, const Answers& answers)
      : socket_(io, asio::generic::stream_protocol(AF_UNIX, 0), fd.get()),
        timer_(io),
        answers_(answers) {
    (void)fd.release();
  }
  ~Watcher() { close(); }

  bool open() const { return open_; }

  void read_query() {
    timer_.expires_after(kPatience);
    timer_.async_wait([self = shared_from_this()](asio::error_code error) {
      if (!error) self->close();
    });
    asio::async_read(socket_, asio::buffer(length_),
                     [self = shared_from_this()](asio::error_code error, size_t) {
                       error ? self->close() : self->read_body();
                     });
  }

  void close() {
    if (!std::exchange(open_, false)) return;
    timer_.cancel();
    asio::error_code error;
    const int fd = socket_.release(error);
    if (!error) close_and_forget(fd);
  }

 private:
  void read_body() {
    const size_t size = ByteReader(length_).number<ByteLength>();
    if (!open_ || size > kMaxQueryBytes) return close();
    bytes_.resize(size);
    asio::async_read(socket_, asio::buffer(bytes_),
                     [self = shared_from_this()](asio::error_code error, size_t) {
                       error ? self->close() : self->answer();
                     });
  }

  void answer() {
    if (!open_) return;
    const auto write = [watcher = weak_from_this()](const auto& reply) {
      if (const auto here = watcher.lock()) here->write(encode(reply));
    };
    ReportQuery reports;
    TraceQuery trace;
    if (decode(bytes_, reports)) return answers_.reports(reports, write);
    if (decode(bytes_, trace)) return answers_.trace(trace, write);
    close();
  }

  void write(const std::string& reply) {
    if (!open_) return;
    bytes_.clear();
    ByteWriter(bytes_).blob(reply, kMaxStatusReply);
    asio::async_write(socket_, asio::buffer(bytes_),
                      [self = shared_from_this()](asio::error_code error, size_t) {
                        if (error) return self->close();
                        if (self->open_) self->read_query();
                      });
  }

  asio::generic::stream_protocol::socket socket_;
  asio::steady_timer timer_;
  const Answers& answers_;
  std::array<char, sizeof(ByteLength)> length_{};
  std::string bytes_;
  bool open_ = true;
};

StatusEndpoint::StatusEndpoint(asio::io_context& io, const StatusName& name, Answers answers)
    : io_(io), answers_(std::move(answers)), door_(io), again_(io) {
  OwnedFd fd = listen_status(name);
  door_.assign(fd.get());
  (void)fd.release();
  accept_next();
}

StatusEndpoint::~StatusEndpoint() { close(); }

void StatusEndpoint::close() {
  for (const auto& watcher : watchers_) watcher->close();
  watchers_.clear();
  again_.cancel();
  if (door_.is_open()) close_and_forget(door_.release());
}

void StatusEndpoint::accept_next() {
  door_.async_wait(asio::posix::stream_descriptor::wait_read, [this](asio::error_code error) {
    if (error || !door_.is_open()) return;
    try {
      if (accept()) return accept_next();
    } catch (const std::exception& failure) {  // no memory: who asks later is answered
      log(LogLevel::info, "control", fmt::format("a watcher was sent away: {}", failure.what()));
    }
    again_.expires_after(kAcceptAgain);
    again_.async_wait([this](asio::error_code over) {
      if (!over && door_.is_open()) accept_next();
    });
  });
}

bool StatusEndpoint::accept() {
  const int listening = door_.native_handle();
  OwnedFd fd(open_guarded(
      [&] { return ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
  if (!fd) return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  const auto user = user_behind(fd.get());
  std::erase_if(watchers_, [](const auto& watcher) { return !watcher->open(); });
  const bool allowed = user && (*user == 0 || *user == geteuid());
  if (!allowed || watchers_.size() >= kMaxWatchers) return true;
  watchers_.push_back(std::make_shared<Watcher>(io_, std::move(fd), answers_));
  watchers_.back()->read_query();
  return true;
}

}  // namespace ringwood
