#include "tools/command/terminal_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace ringwood::tools {

std::optional<int> terminal_width(std::FILE* stream) {
  const int fd = ::fileno(stream);
  winsize size{};
  if (fd < 0 || ::isatty(fd) != 1 || ::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
    return std::nullopt;
  return size.ws_col - 1;
}

}  // namespace ringwood::tools
