#include "transports/base/descriptors.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "transports/base/error.h"

namespace ringwood {
namespace {

size_t open_now() {
  std::error_code ignored;
  const std::filesystem::directory_iterator files("/proc/self/fd", ignored);
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

void make_room_for_descriptors(size_t more) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t open = open_now(), need = open + more;
  if (limit.rlim_cur >= need + more) return;
  rlimit raised = limit;
  raised.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, need + more));
  if (raised.rlim_cur != limit.rlim_cur) ::setrlimit(RLIMIT_NOFILE, &raised);
  if (raised.rlim_cur >= need) return;
  throw Error(ErrorCode::system,
              fmt::format("{} more files must be opened beside the {} that are, but this process "
                          "may open {} at most; raise ulimit -n",
                          more, open, limit.rlim_max));
}

}  // namespace ringwood
