#include "tools/top/serve_clients.h"

#include <utility>

#include "tools/top/metrics.h"

namespace ringwood::tools {
namespace {

// A stranger's is shorter: it may take one of few places.
constexpr std::chrono::seconds kPatience{30}, kStrangersPatience{5};
constexpr std::chrono::hours kForever{24 * 365};

}  // namespace

Client::Client(asio::ip::tcp::socket socket, bool own_user)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), own_user_(own_user) {}

std::chrono::seconds Client::patience() const {
  if (waits_forever() && !ending_) return kForever;
  return own_user_ ? kPatience : kStrangersPatience;
}

void Client::read() {
  timer_.expires_after(patience());
  timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error) self->close();
  });
  socket_.async_read_some(asio::buffer(in_), [self = shared_from_this()](auto error, size_t got) {
    if (error && error != asio::error::eof) return self->close();
    self->text_.append(self->in_.data(), got);
    self->took(error == asio::error::eof);
  });
}

// A client that sends no more has left, or waits for the end of the replies.
void Client::took(bool over) {
  if (!take(text_) || over) ending_ = true;
  if (text_.size() > kMaxRequest) return close();
  if (!ending_) return read();
  if (out_.empty()) return close();
  timer_.expires_after(patience());
  timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error) self->close();
  });
}

void Client::write(std::string text) {
  if (text.empty() || !socket_.is_open()) return;
  out_.push_back(std::move(text));
  if (out_.size() == 1) write_next();
  if (out_.size() > kMaxUnread) close();
}

void Client::close() {
  asio::error_code ignored;
  timer_.cancel();
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void Client::write_next() {
  asio::async_write(socket_, asio::buffer(out_.front()),
                    [self = shared_from_this()](auto error, size_t) {
                      if (error) return self->close();
                      self->out_.pop_front();
                      if (!self->out_.empty()) return self->write_next();
                      if (self->ending_) self->close();
                    });
}

bool HttpClient::take(std::string& text) {
  if (!is_whole_request(text)) return true;
  const auto page = [this] {
    return shown_.sample ? prometheus_text(*shown_.sample, shown_.slurm_job) : std::string();
  };
  write(http_reply(text, {.own_user = own_user(), .token = token_, .metrics = page}));
  text.clear();
  return false;
}

void RasClient::tell(const JobEvent& event) {
  if (session_.monitors()) write(session_.notice(event));
}

bool RasClient::take(std::string& text) {
  for (size_t end; !session_.finished() && (end = text.find('\n')) != std::string::npos;) {
    if (end > RasSession::kMaxLine) return false;
    write(session_.take(std::string_view(text).substr(0, end)));
    text.erase(0, end + 1);
  }
  return !session_.finished() && text.size() <= RasSession::kMaxLine;
}

}  // namespace ringwood::tools
