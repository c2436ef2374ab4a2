#include "transports/verbs/fallback/fallback_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace ringwood::verbs {

// Closing over unread bytes would reset the connection and destroy what the peer has not read yet.
FallbackConnection::~FallbackConnection() {
  if (!fd_) return;
  ::shutdown(fd_.get(), SHUT_WR);
  std::array<std::byte, 4096> unread;
  for (int i = 0; i < 1024; ++i) {
    if (::recv(fd_.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
  }
}

void FallbackConnection::close(int error_number) {
  if (closed_) return;
  closed_ = true;
  failure_ = error_number;
}

void FallbackConnection::trim() {
  if (queued() > 0 || out_.capacity() == 0) return;
  std::vector<std::byte>().swap(out_);
  sent_ = 0;
}

void FallbackConnection::queue(const Frame& frame, std::span<const std::byte> payload) {
  // While the peer is slower the queue is never empty, so what was sent is cut off before it is
  // more than what is left.
  if (sent_ > queued()) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  ByteWriter writer(out_);
  FrameHeader header{frame, static_cast<uint32_t>(payload.size())};
  fields(writer, header);
  out_.insert(out_.end(), payload.begin(), payload.end());
}

void FallbackConnection::flush() {
  while (!closed_ && sent_ < out_.size()) {
    const ssize_t n =
        ::send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      // What the peer sent before can still be read; reading finds the end.
      out_.clear();
      sent_ = 0;
      return;
    }
  }
}

void FallbackConnection::receive(const Take& take) {
  for (bool more = true; more && !closed_;) {
    const size_t have = in_.size();
    in_.resize(have + FrameHeader::kBytes + kMaxPayload);
    const ssize_t n = ::recv(fd_.get(), in_.data() + have, in_.size() - have, MSG_DONTWAIT);
    const int error = errno;
    in_.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    more = n > 0;
    size_t at = 0;
    while (in_.size() - at >= FrameHeader::kBytes) {
      const std::span<const std::byte> rest = std::span(in_).subspan(at);
      FrameHeader header;
      if (!decode(rest.first(FrameHeader::kBytes), header)) return close(EPROTO);
      if (rest.size() < FrameHeader::kBytes + header.bytes) break;
      at += FrameHeader::kBytes + header.bytes;
      if (take(header.frame, rest.subspan(FrameHeader::kBytes, header.bytes))) continue;
      more = false;
      break;
    }
    in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(at));
    if (n == 0) close(0);
    if (n < 0 && error != EAGAIN && error != EWOULDBLOCK && error != EINTR) close(error);
    if (n < 0 && error == EINTR) more = true;
  }
}

bool FallbackConnection::await(Frame& frame, std::vector<std::byte>& payload, Deadline deadline) {
  for (bool got = false;;) {
    flush();
    receive([&](const Frame& one, std::span<const std::byte> bytes) {
      frame = one;
      payload.assign(bytes.begin(), bytes.end());
      got = true;
      return false;
    });
    if (got) return true;
    if (closed_ || deadline.passed()) return false;
    pollfd wanted{fd_.get(), static_cast<short>(POLLIN | (queued() > 0 ? POLLOUT : 0)), 0};
    ::poll(&wanted, 1, deadline.left_ms());
  }
}

}  // namespace ringwood::verbs
