#include "transports/base/descriptors.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <mutex>

#include "transports/base/error.h"

namespace ringwood {
namespace {

// `all` if this process may open no more, and so cannot count them. 0 if nobody can tell, as
// without /proc.
rlim_t open_now(rlim_t all) {
  std::error_code failed;
  const std::filesystem::directory_iterator files("/proc/self/fd", failed);
  if (failed) return failed == std::errc::too_many_files_open ? all : 0;
  return static_cast<rlim_t>(std::distance(begin(files), end(files)));
}

}  // namespace

void make_room_for_descriptors(size_t more, const char* purpose) {
  static std::mutex mutex;  // the limit is the process's; two that raise it must not lower it
  std::lock_guard lock(mutex);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t open = open_now(limit.rlim_cur), need = open + more;
  if (limit.rlim_cur >= need + more) return;
  rlimit raised = limit;
  raised.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, need + more));
  if (raised.rlim_cur != limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) != 0) raised = limit;
  if (raised.rlim_cur >= need) return;
  throw Error(ErrorCode::system,
              fmt::format("this process needs {} open files, {} of them for {}, but may open {} at "
                          "most; raise ulimit -n, whose hard limit that is (LimitNOFILE= of "
                          "systemd, --ulimit nofile= of docker)",
                          need, more, purpose, raised.rlim_cur));
}

}  // namespace ringwood
