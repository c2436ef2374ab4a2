#include "transports/control/status/status_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "transports/base/input_file.h"

namespace ringwood {
namespace {

constexpr std::string_view kPrefix = "ringwood-status-";

struct Address {
  explicit Address(const std::string& name) {
    unix.sun_family = AF_UNIX;
    name.copy(unix.sun_path + 1, sizeof unix.sun_path - 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&unix); }
  sockaddr_un unix{};
  socklen_t length;
};

OwnedFd make_socket() {
  return OwnedFd(open_guarded(
      [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
}

Error refusal(std::string why) { return Error(ErrorCode::system, std::move(why)); }

// Takes the number before the next slash, or before the end.
template <class T>
bool take_number(std::string_view& text, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.empty()) return true;
  if (text.front() != '/') return false;
  text.remove_prefix(1);
  return true;
}

bool await(int fd, short events, Deadline deadline) {
  for (pollfd one{fd, events, 0};;) {
    const int ready = ::poll(&one, 1, deadline.left_ms());
    if (ready > 0) return true;
    if ((ready < 0 && errno != EINTR) || deadline.passed()) return false;
  }
}

Status read_all(int fd, char* into, size_t bytes, Deadline deadline) {
  while (bytes > 0) {
    if (!await(fd, POLLIN, deadline)) return Error(ErrorCode::timeout, "it does not answer");
    const ssize_t got = ::recv(fd, into, bytes, MSG_DONTWAIT);
    if (got == 0) return refusal("it ended the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return refusal(system_message("recv"));
    if (got < 0) continue;
    into += got;
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

// One query and its reply.
Result<std::string> exchange(int fd, const std::string& query, size_t max, Deadline deadline) {
  std::string bytes;
  ByteWriter(bytes).blob(query, kMaxQueryBytes);
  if (!await(fd, POLLOUT, deadline)) return Error(ErrorCode::timeout, "it does not answer");
  if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(bytes.size()))
    return refusal("it refused the connection: only its user and root may ask");
  std::array<char, sizeof(ByteLength)> length;
  if (Status s = read_all(fd, length.data(), length.size(), deadline); !s) return s.error();
  const size_t size = ByteReader(length).number<ByteLength>();
  if (size > max) return refusal("it sent no valid message");
  std::string reply(size, '\0');
  if (Status s = read_all(fd, reply.data(), size, deadline); !s) return s.error();
  return reply;
}

bool fits(const TracePiece& piece) {
  if (piece.state != TraceState::here) return true;
  if (piece.offset > piece.total || piece.bytes.size() > piece.total - piece.offset) return false;
  return !piece.bytes.empty() || piece.offset == piece.total;
}

}  // namespace

std::string to_string(const StatusName& name) {
  return fmt::format("{}{}/{}/{}/{:016x}/{}", kPrefix, name.version, name.user, name.pid,
                     name.group, name.rank);
}

std::optional<StatusName> parse_status_name(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  StatusName name;
  const bool whole = take_number(text, name.version) && take_number(text, name.user) &&
                     take_number(text, name.pid) && take_number(text, name.group, 16) &&
                     take_number(text, name.rank) && text.empty() && name.pid > 0 && name.rank >= 0;
  return whole ? std::optional(name) : std::nullopt;
}

std::vector<StatusName> status_names() {
  std::vector<StatusName> names;
  InputFile table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const size_t at = line.rfind(" @");
    if (at == std::string::npos) continue;
    if (const auto name = parse_status_name(std::string_view(line).substr(at + 2)))
      names.push_back(*name);
  }
  const auto key = [](const StatusName& n) { return std::tuple(n.group, n.rank, n.pid, n.user); };
  std::ranges::sort(names, {}, key);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

OwnedFd listen_status(const StatusName& name) {
  const Address address(to_string(name));
  OwnedFd fd = make_socket();
  if (!fd) throw refusal(system_message("socket(AF_UNIX)"));
  if (::bind(fd.get(), address.get(), address.length) != 0)
    throw refusal(system_message("bind(AF_UNIX)"));
  if (::listen(fd.get(), 8) != 0) throw refusal(system_message("listen(AF_UNIX)"));
  return fd;
}

std::optional<unsigned> user_behind(int fd) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return std::nullopt;
  return who.uid;
}

Result<OwnedFd> connect_status(const StatusName& name, Deadline deadline) {
  const Address address(to_string(name));
  OwnedFd fd = make_socket();
  if (!fd) return refusal(system_message("socket(AF_UNIX)"));
  while (::connect(fd.get(), address.get(), address.length) != 0) {
    if (errno == ECONNREFUSED) return refusal("it is gone");
    if (errno != EAGAIN && errno != EINTR) return refusal(system_message("connect(AF_UNIX)"));
    if (deadline.passed()) return Error(ErrorCode::timeout, "it does not answer");
    ::poll(nullptr, 0, 1);  // its queue is full
  }
  const auto user = user_behind(fd.get());
  if (!user || (*user != name.user && *user != 0))
    return refusal("it belongs to another user than its name says");
  if (geteuid() != 0 && *user != geteuid()) return refusal("it belongs to another user");
  return fd;
}

Result<ReportPage> ask_status(int fd, const ReportQuery& query, Deadline deadline) {
  auto reply = exchange(fd, encode(query), kMaxPage, deadline);
  if (!reply) return reply.error();
  ReportPage page;
  if (!decode(*reply, page)) return refusal("it sent no valid message");
  for (int after = page.first - 1; const ReportRow& row : page.rows) {
    if (row.rank <= after || row.rank >= page.size) return refusal("it sent no valid message");
    after = row.rank;
  }
  return page;
}

Result<TracePiece> ask_trace(int fd, const TraceQuery& query, Deadline deadline) {
  auto reply = exchange(fd, encode(query), kMaxTraceReply, deadline);
  if (!reply) return reply.error();
  TracePiece piece;
  if (!decode(*reply, piece) || !answers(piece, query) || !fits(piece))
    return refusal("it sent no valid message");
  return piece;
}

}  // namespace ringwood
