#include "tools/command/progress_line.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "tools/command/terminal_width.h"

namespace ringwood::tools {
namespace {

constexpr std::chrono::milliseconds kRefresh{100};

}  // namespace

ProgressLine::ProgressLine(std::string name, bool at_once)
    : name_(std::move(name)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      last_(terminal_ || at_once ? Clock::time_point() : Clock::now()) {}

void ProgressLine::show(const std::string& text) {
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? Clock::duration(kRefresh) : Clock::duration(kProgressInterval)))
    return;
  last_ = now;
  if (terminal_)
    fmt::print(stderr, "\r\x1b[K{}", text.substr(0, terminal_width(stderr).value_or(79)));
  else
    fmt::print(stderr, "# {}: {}\n", name_, text);
  std::fflush(stderr);
  shown_ = terminal_;
}

void ProgressLine::erase() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace ringwood::tools
