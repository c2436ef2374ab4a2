#include "transports/base/host_watch.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

namespace ringwood {
namespace {

// A kernel answers probes of a closed window, and data sent again behind it, at most twice a second
// (tcp_invalid_ratelimit); they are sent after 0.2 s, 0.4 s, 0.8 s and so on.
constexpr uint32_t kUnanswered = 3;

}  // namespace

void keep_alive(int fd, Duration idle, Duration patience) {
  const auto seconds = [](Duration d, int most) {
    const auto whole = std::chrono::ceil<std::chrono::seconds>(d).count();
    return static_cast<int>(std::clamp<int64_t>(whole, 1, most));
  };
  constexpr int kMaxProbes = 127, kMaxSeconds = 32767;  // the kernel's limits
  const int on = 1, idle_s = seconds(idle, kMaxSeconds);
  const int every_s = seconds(patience / kMaxProbes, kMaxSeconds);
  const int probes = std::clamp(seconds(patience, kMaxSeconds) / every_s + 1, 2, kMaxProbes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

bool HostWatch::gone(int fd, Clock::time_point now) {
  if (now - looked_ < patience_ / 16) return false;
  looked_ = now;
  tcp_info info{};
  socklen_t bytes = sizeof info;
  const bool told = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
                    bytes >= offsetof(tcp_info, tcpi_data_segs_out) + sizeof(uint32_t);
  if (!told) return false;
  if (info.tcpi_segs_in != came_ || (info.tcpi_unacked == 0 && info.tcpi_probes == 0)) {
    came_ = info.tcpi_segs_in;
    went_ = info.tcpi_data_segs_out;
    since_ = Clock::time_point::max();
    return false;
  }
  // Over a closed window minutes may pass between two probes, so silence alone says nothing.
  const uint32_t unanswered = info.tcpi_data_segs_out - went_ + info.tcpi_probes;
  if (unanswered > 0) since_ = std::min(since_, now);
  return unanswered >= kUnanswered && now - since_ >= patience_;
}

}  // namespace ringwood
