#include "tools/doctor/collect/netlink.h"

#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "transports/base/clock.h"
#include "transports/base/owned_fd.h"

namespace ringwood::tools::doctor {
namespace {

constexpr std::chrono::milliseconds kAnswerTime{1000};
constexpr size_t kMaxAnswers = 4096;

enum class Datagram { last, more, refused };

// Adds the messages of a datagram.
Datagram take(Bytes datagram, std::vector<std::string>& answers, std::string& why) {
  bool more = false;
  nlmsghdr head{};
  while (copy(datagram, head) && head.nlmsg_len >= sizeof head &&
         head.nlmsg_len <= datagram.size()) {
    const Bytes body = datagram.substr(sizeof head, head.nlmsg_len - sizeof head);
    int error = 0;
    if (head.nlmsg_type == NLMSG_DONE) return Datagram::last;
    if (head.nlmsg_type == NLMSG_ERROR && copy(body, error) && error != 0) {
      why = std::strerror(-error);
      return Datagram::refused;
    }
    if (answers.size() < kMaxAnswers) answers.emplace_back(body);
    more = (head.nlmsg_flags & NLM_F_MULTI) != 0;
    datagram.remove_prefix(std::min<size_t>(NLMSG_ALIGN(head.nlmsg_len), datagram.size()));
  }
  return more ? Datagram::more : Datagram::last;
}

}  // namespace

void each_attribute(Bytes list, const std::function<void(int type, Bytes value)>& body) {
  while (list.size() >= NLA_HDRLEN) {
    nlattr head{};
    std::memcpy(&head, list.data(), sizeof head);
    if (head.nla_len < NLA_HDRLEN || head.nla_len > list.size()) return;
    body(head.nla_type & NLA_TYPE_MASK, list.substr(NLA_HDRLEN, head.nla_len - NLA_HDRLEN));
    list.remove_prefix(std::min<size_t>(NLA_ALIGN(head.nla_len), list.size()));
  }
}

std::optional<std::vector<std::string>> ask_netlink(const std::string& request, std::string& why) {
  const OwnedFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket || ::send(socket.get(), request.data(), request.size(), 0) < 0) {
    why = std::strerror(errno);
    return std::nullopt;
  }
  const Deadline deadline = Deadline::after(kAnswerTime);
  std::vector<std::string> answers;
  std::string buffer(size_t{64} << 10, '\0');
  for (auto state = Datagram::more; state == Datagram::more;) {
    pollfd one{socket.get(), POLLIN, 0};
    ssize_t got = -1;
    if (::poll(&one, 1, deadline.left_ms()) == 1)
      got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      why = "the kernel does not answer";
      return std::nullopt;
    }
    state = take(Bytes(buffer).substr(0, static_cast<size_t>(got)), answers, why);
    if (state == Datagram::refused) return std::nullopt;
  }
  return answers;
}

}  // namespace ringwood::tools::doctor
