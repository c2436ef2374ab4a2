#include "transports/tcp/stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ringwood::tcp {
namespace {

// To reduce from: large enough to be worth a system call, small enough to stay in L2.
constexpr size_t kBufferBytes = size_t{256} << 10;
// Beyond what is posted: a fingerprint and the small message behind it come together.
constexpr size_t kAheadBytes = size_t{16} << 10;
// Per system call: the two directions of a link take turns, and what one call has put into the
// kernel's buffers is read again while it still lies in a cache. Measured on two cores: 64 MiB each
// way take 27 ms so, and 52 ms with 1 MiB per call.
constexpr size_t kSendBytes = size_t{128} << 10;
constexpr size_t kReceiveBytes = size_t{256} << 10;

// Pinning pages and hearing of them again costs more than copying less than this.
constexpr size_t kLentBytes = size_t{256} << 10;
constexpr size_t kLendBytes = size_t{1} << 20;  // per system call

}  // namespace

Stream::Stream(OwnedFd fd, bool lend) : fd_(std::move(fd)) {
  if (lend) zero_copy_.start(fd_.get());
}

Stream::~Stream() {
  if (!fd_) return;
  if (!zero_copy_.idle()) sever();
  ::shutdown(fd_.get(), SHUT_WR);
  std::array<std::byte, 16384> unread;
  for (int i = 0; i < 1024; ++i) {
    if (::recv(fd_.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
  }
}

void Stream::watch_host(Duration patience) {
  keep_alive(fd_.get(), kDataIdle, patience);
  watch_ = HostWatch(patience);
}

void Stream::sever() const noexcept {
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  (void)::connect(fd_.get(), &nobody, sizeof nobody);
}

Outcome Stream::fail(int error_number) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK) return Outcome::blocked;
  if (error_number == EINTR) return Outcome::moved;
  failure_ = error_number;
  return Outcome::failed;
}

Outcome Stream::send(AbortGate& gate, Fifo<uint64_t>& finished) {
  const bool given_back = !lent_.empty() && take_back(finished);
  const Outcome sent = out_.empty() ? Outcome::blocked : transmit(gate, finished);
  return sent == Outcome::blocked && given_back ? Outcome::moved : sent;
}

Outcome Stream::transmit(AbortGate& gate, Fifo<uint64_t>& finished) {
  AbortGate::Pass pass(gate);
  if (!pass) return Outcome::blocked;
  bool lend = zero_copy_.on() && out_.front().bytes >= kLentBytes;
  Parts parts;
  size_t offered = 0;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = room_for_send(parts, offered, lend);
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  ssize_t sent = ::sendmsg(fd_.get(), &message, kFlags | (lend ? MSG_ZEROCOPY : 0));
  if (sent < 0 && lend && errno == ENOBUFS) {  // too much is lent already
    lend = false;
    sent = ::sendmsg(fd_.get(), &message, kFlags);
  }
  if (sent < 0) return fail(errno);
  taken(static_cast<size_t>(sent), lend ? zero_copy_.lent() : 0, finished);
  return static_cast<size_t>(sent) == offered ? Outcome::moved : Outcome::blocked;
}

// Large pieces are lent one by one; small ones go together, and are not worth lending.
size_t Stream::room_for_send(Parts& parts, size_t& offered, bool lend) {
  const size_t most = lend ? kLendBytes : kSendBytes;
  size_t count = 0;
  for (; count < std::min<size_t>(lend ? 1 : kParts, out_.size()) && offered < most; ++count) {
    const Piece& piece = out_[count];
    if (!lend && count > 0 && zero_copy_.on() && piece.bytes >= kLentBytes) break;
    const size_t bytes = std::min(piece.bytes - piece.done, most - offered);
    parts[count] = {piece.data + piece.done, bytes};
    offered += bytes;
  }
  return count;
}

// `call`: which call has lent these bytes; 0 if they were copied.
void Stream::taken(size_t bytes, uint64_t call, Fifo<uint64_t>& finished) {
  if (call > 0) lent_in_ = call;
  while (bytes > 0) {
    Piece& piece = out_.front();
    const size_t part = std::min(bytes, piece.bytes - piece.done);
    piece.done += part;
    bytes -= part;
    if (piece.done < piece.bytes) break;
    if (lent_in_ > 0)
      lent_.push({piece.message, lent_in_});
    else
      finished.push(piece.message);
    lent_in_ = 0;
    out_.pop();
  }
}

bool Stream::take_back(Fifo<uint64_t>& finished) {
  const uint64_t calls = zero_copy_.collect(fd_.get());
  bool any = false;
  for (; !lent_.empty() && lent_.front().call <= calls; lent_.pop()) {
    finished.push(lent_.front().message);
    any = true;
  }
  return any;
}

// A short read does not mean that the socket is empty: the end of the stream may be behind it, and
// would not be announced again. So only "again" and "nothing wanted" are `blocked`.
Outcome Stream::receive(AbortGate& gate, Fifo<uint64_t>& finished) {
  from_buffer(gate, finished);
  if (in_.empty()) return Outcome::blocked;
  AbortGate::Pass pass(gate);
  if (!pass) return Outcome::blocked;
  Parts parts;
  msghdr message{};
  message.msg_iov = parts.data();
  size_t stored = 0;
  message.msg_iovlen = room_for_receive(parts, stored);
  if (message.msg_iovlen == 0) return Outcome::blocked;
  const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  if (got < 0) return fail(errno);
  // What was sent before the end is still there to be read in place.
  if (got == 0) return shown().empty() ? fail(0) : Outcome::blocked;
  arrived(static_cast<size_t>(got), stored, finished);
  return Outcome::moved;
}

// Copies what was read ahead to where it has since been wanted.
void Stream::from_buffer(AbortGate& gate, Fifo<uint64_t>& finished) {
  if (begin_ == end_ || in_.empty() || !in_.front().data) return;
  AbortGate::Pass pass(gate);
  if (!pass) return;
  while (begin_ < end_ && !in_.empty() && in_.front().data) {
    Piece& piece = in_.front();
    const size_t bytes = std::min(end_ - begin_, piece.bytes - piece.done);
    std::memcpy(piece.data + piece.done, buffer_.get() + begin_, bytes);
    begin_ += bytes;
    piece.done += bytes;
    if (piece.done < piece.bytes) break;
    finished.push(piece.message);
    in_.pop();
  }
}

// First the memory of `stored` pieces, then the buffer. Returns the number of parts.
size_t Stream::room_for_receive(Parts& parts, size_t& stored) {
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && end_ - begin_ <= begin_) {
    std::memcpy(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  size_t count = 0, wanted = 0;
  while (count < kParts - 1 && count < in_.size() && in_[count].data && wanted < kReceiveBytes) {
    const Piece& piece = in_[count];
    const size_t bytes = std::min(piece.bytes - piece.done, kReceiveBytes - wanted);
    parts[count++] = {piece.data + piece.done, bytes};
    wanted += bytes;
  }
  stored = count;
  if (wanted == kReceiveBytes) return count;
  const bool shows = count < in_.size() && !in_[count].data;
  const size_t ahead = std::min(shows ? kBufferBytes : kAheadBytes, kBufferBytes - end_);
  if (ahead > 0) parts[count++] = {buffer_.get() + end_, ahead};
  return count;
}

void Stream::arrived(size_t bytes, size_t stored, Fifo<uint64_t>& finished) {
  for (; bytes > 0 && stored > 0; --stored) {
    Piece& piece = in_.front();
    const size_t part = std::min(bytes, piece.bytes - piece.done);
    piece.done += part;
    bytes -= part;
    if (piece.done < piece.bytes) return;
    finished.push(piece.message);
    in_.pop();
  }
  end_ += bytes;
}

std::span<const std::byte> Stream::shown() {
  if (in_.empty() || in_.front().data || begin_ == end_) return {};
  const Piece& piece = in_.front();
  const size_t have = end_ - begin_, rest = piece.bytes - piece.done;
  if (have >= rest) return {buffer_.get() + begin_, rest};
  const size_t whole = (piece.done + have) & ~size_t{15};
  return {buffer_.get() + begin_, whole > piece.done ? whole - piece.done : 0};
}

bool Stream::consume(size_t bytes) {
  Piece& piece = in_.front();
  begin_ += bytes;
  piece.done += bytes;
  if (piece.done < piece.bytes) return false;
  in_.pop();
  return true;
}

}  // namespace ringwood::tcp
