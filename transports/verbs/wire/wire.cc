#include "transports/verbs/wire/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ringwood::verbs {
namespace {

constexpr size_t kHeader = 16;

}  // namespace

// Closing over unread bytes would reset the connection and destroy what the peer has not read yet.
Wire::~Wire() {
  if (!fd_) return;
  ::shutdown(fd_.get(), SHUT_WR);
  std::array<std::byte, 4096> unread;
  for (int i = 0; i < 1024; ++i) {
    if (::recv(fd_.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
  }
}

void Wire::close(int error_number) {
  if (closed_) return;
  closed_ = true;
  failure_ = error_number;
}

void Wire::trim() {
  if (queued() > 0 || out_.capacity() == 0) return;
  std::vector<std::byte>().swap(out_);
  sent_ = 0;
}

void Wire::queue(const Frame& frame, std::span<const std::byte> payload) {
  // While the peer is slower there is always something left, so what was sent is cut off before it
  // is more than that.
  if (sent_ > queued()) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  std::array<std::byte, kHeader> header{};
  const auto bytes = static_cast<uint32_t>(payload.size());
  header[0] = static_cast<std::byte>(frame.type);
  header[1] = static_cast<std::byte>(frame.path);
  std::memcpy(header.data() + 4, &bytes, sizeof bytes);
  std::memcpy(header.data() + 8, &frame.position, sizeof frame.position);
  out_.insert(out_.end(), header.begin(), header.end());
  out_.insert(out_.end(), payload.begin(), payload.end());
}

void Wire::flush() {
  while (!closed_ && sent_ < out_.size()) {
    const ssize_t n =
        ::send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      // What the peer sent before is still to be read; reading finds the end.
      out_.clear();
      sent_ = 0;
      return;
    }
  }
}

void Wire::receive(const Take& take) {
  for (bool more = true; more && !closed_;) {
    const size_t have = in_.size();
    in_.resize(have + kHeader + kMaxPayload);
    const ssize_t n = ::recv(fd_.get(), in_.data() + have, in_.size() - have, MSG_DONTWAIT);
    const int error = errno;
    in_.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    more = n > 0;
    size_t at = 0;
    while (in_.size() - at >= kHeader) {
      Frame frame;
      uint32_t bytes = 0;
      frame.type = static_cast<FrameType>(in_[at]);
      frame.path = static_cast<uint8_t>(in_[at + 1]);
      std::memcpy(&bytes, in_.data() + at + 4, sizeof bytes);
      std::memcpy(&frame.position, in_.data() + at + 8, sizeof frame.position);
      if (bytes > kMaxPayload) return close(EPROTO);
      if (in_.size() - at < kHeader + bytes) break;
      const std::span<const std::byte> payload(in_.data() + at + kHeader, bytes);
      at += kHeader + bytes;
      if (take(frame, payload)) continue;
      more = false;
      break;
    }
    in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(at));
    if (n == 0) close(0);
    if (n < 0 && error != EAGAIN && error != EWOULDBLOCK && error != EINTR) close(error);
    if (n < 0 && error == EINTR) more = true;
  }
}

bool Wire::await(Frame& frame, std::vector<std::byte>& payload, Deadline deadline) {
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
