#include "transports/tcp/stream.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ringwood::tcp {
namespace {

// Read beyond what is posted: a preamble and the small message behind it come together.
constexpr size_t kAheadBytes = size_t{16} << 10;
// Bytes per system call. The two directions of a link take turns, and the peer reads what one call
// has put into the kernel's buffers while it is still in a cache. Measured on two cores: 64 MiB
// each way take 27 ms so, and 52 ms with 1 MiB per call.
constexpr size_t kSendBytes = size_t{128} << 10;
constexpr size_t kReceiveBytes = size_t{256} << 10;

// For less than this, pinning pages and the kernel's notification cost more than a copy.
constexpr size_t kZeroCopyBytes = size_t{256} << 10;
constexpr size_t kZeroCopyCallBytes = size_t{1} << 20;  // per system call

constexpr size_t kParts = 32;  // of a system call

// First the buffers of posted pieces, then the room to read ahead. Returns the number of parts.
size_t room_for_receive(Fifo<Piece>& in, ReadAhead& ahead, std::span<iovec> parts, size_t& stored) {
  size_t count = 0, wanted = 0;
  while (count < parts.size() - 1 && count < in.size() && in[count].data &&
         wanted < kReceiveBytes) {
    const Piece& piece = in[count];
    const size_t bytes = std::min(piece.bytes - piece.done, kReceiveBytes - wanted);
    parts[count++] = {piece.data + piece.done, bytes};
    wanted += bytes;
  }
  stored = count;
  if (wanted == kReceiveBytes) return count;
  const bool shows = count < in.size() && !in[count].data;
  const std::span<std::byte> room = ahead.room(shows ? ReadAhead::kBytes : kAheadBytes);
  if (!room.empty()) parts[count++] = {room.data(), room.size()};
  return count;
}

}  // namespace

Stream::Stream(OwnedFd fd, bool zero_copy) : fd_(std::move(fd)) {
  if (zero_copy) zero_copy_.start(fd_.get());
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
  const bool given_back = zero_copy_.any() && take_back(finished);
  const Outcome sent = out_.empty() ? Outcome::blocked : transmit(gate, finished);
  return sent == Outcome::blocked && given_back ? Outcome::moved : sent;
}

Outcome Stream::transmit(AbortGate& gate, Fifo<uint64_t>& finished) {
  AbortGate::Access access(gate);
  if (!access) return Outcome::blocked;
  bool zero_copy = zero_copy_.on() && out_.front().bytes >= kZeroCopyBytes;
  std::array<iovec, kParts> parts;
  size_t offered = 0;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = room_for_send(parts, offered, zero_copy);
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  ssize_t sent = ::sendmsg(fd_.get(), &message, kFlags | (zero_copy ? MSG_ZEROCOPY : 0));
  if (sent < 0 && zero_copy && errno == ENOBUFS) {  // too many pages are pinned already
    zero_copy = false;
    sent = ::sendmsg(fd_.get(), &message, kFlags);
  }
  if (sent < 0) return fail(errno);
  if (zero_copy) zero_copy_.note_call();
  taken(static_cast<size_t>(sent), finished);
  return static_cast<size_t>(sent) == offered ? Outcome::moved : Outcome::blocked;
}

bool Stream::may_finish() const {
  if (!in_.empty() && !ended_) return true;
  if (!zero_copy_.any() || !out_.empty()) return false;
  // With its end the peer acknowledges all that came before.
  pollfd one{fd_.get(), POLLRDHUP, 0};
  const bool open = ::poll(&one, 1, 0) == 0 || (one.revents & (POLLRDHUP | POLLHUP)) == 0;
  int unacknowledged = 0;
  return open || (::ioctl(fd_.get(), SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0);
}

LinkTraffic Stream::traffic() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  // A kernel that knows less leaves the rest 0: then the link seems never to be busy.
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {0,
          info.tcpi_bytes_acked,
          static_cast<double>(info.tcpi_busy_time) * 1e-6,
          static_cast<double>(info.tcpi_rwnd_limited) * 1e-6,
          1,
          info.tcpi_total_retrans};
}

// Large pieces are sent zero-copy, one by one; small ones go together, as copies.
size_t Stream::room_for_send(std::span<iovec> parts, size_t& offered, bool zero_copy) {
  const size_t most = zero_copy ? kZeroCopyCallBytes : kSendBytes;
  size_t count = 0;
  for (; count < std::min(zero_copy ? 1 : parts.size(), out_.size()) && offered < most; ++count) {
    const Piece& piece = out_[count];
    if (!zero_copy && count > 0 && zero_copy_.on() && piece.bytes >= kZeroCopyBytes) break;
    const size_t bytes = std::min(piece.bytes - piece.done, most - offered);
    parts[count] = {piece.data + piece.done, bytes};
    offered += bytes;
  }
  return count;
}

void Stream::taken(size_t bytes, Fifo<uint64_t>& finished) {
  while (bytes > 0) {
    Piece& piece = out_.front();
    const size_t part = std::min(bytes, piece.bytes - piece.done);
    piece.done += part;
    bytes -= part;
    if (piece.done < piece.bytes) break;
    if (!zero_copy_.keep(piece.message)) finished.push(piece.message);
    out_.pop();
  }
}

// A short read does not mean that the socket is empty: the end of the stream may follow, which
// would not be announced again. So only "again" and "nothing wanted" are `blocked`.
Outcome Stream::receive(AbortGate& gate, Fifo<uint64_t>& finished) {
  from_ahead(gate, finished);
  if (in_.empty()) return Outcome::blocked;
  AbortGate::Access access(gate);
  if (!access) return Outcome::blocked;
  std::array<iovec, kParts> parts;
  msghdr message{};
  message.msg_iov = parts.data();
  size_t stored = 0;
  message.msg_iovlen = room_for_receive(in_, ahead_, parts, stored);
  if (message.msg_iovlen == 0) return Outcome::blocked;
  const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  // What was sent before the end can still be read in place.
  if (got == 0 && !in_place().empty()) return Outcome::blocked;
  if (got <= 0) {
    const Outcome outcome = fail(got < 0 ? errno : 0);
    ended_ = outcome == Outcome::failed;
    return outcome;
  }
  arrived(static_cast<size_t>(got), stored, finished);
  return Outcome::moved;
}

// Copies bytes that were read ahead to the buffers posted for them since.
void Stream::from_ahead(AbortGate& gate, Fifo<uint64_t>& finished) {
  if (ahead_.empty() || in_.empty() || !in_.front().data) return;
  AbortGate::Access access(gate);
  if (!access) return;
  while (!ahead_.empty() && !in_.empty() && in_.front().data) {
    Piece& piece = in_.front();
    const size_t bytes = std::min(ahead_.bytes().size(), piece.bytes - piece.done);
    std::memcpy(piece.data + piece.done, ahead_.bytes().data(), bytes);
    ahead_.take(bytes);
    piece.done += bytes;
    if (piece.done < piece.bytes) break;
    finished.push(piece.message);
    in_.pop();
  }
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
  ahead_.add(bytes);
}

std::span<const std::byte> Stream::in_place() {
  if (in_.empty() || in_.front().data || ahead_.empty()) return {};
  const Piece& piece = in_.front();
  const std::span<const std::byte> have = ahead_.bytes();
  const size_t rest = piece.bytes - piece.done;
  if (have.size() >= rest) return have.first(rest);
  const size_t whole = (piece.done + have.size()) & ~size_t{15};
  return have.first(whole > piece.done ? whole - piece.done : 0);
}

bool Stream::consume(size_t bytes) {
  Piece& piece = in_.front();
  ahead_.take(bytes);
  piece.done += bytes;
  if (piece.done < piece.bytes) return false;
  in_.pop();
  return true;
}

}  // namespace ringwood::tcp
