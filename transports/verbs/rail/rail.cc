#include "transports/verbs/rail/rail.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include "transports/base/log.h"
#include "transports/base/wait_set.h"
#include "transports/verbs/library/capabilities.h"

namespace ringwood::verbs {

Rail::~Rail() {
  if (!wait_set_ || port_.inherited()) return;
  wait_set_->remove(channel_.fd());
  wait_set_->remove(events_.fd());
}

bool Rail::open(const VerbsOptions& options, std::string& why) {
  if (!port_.open(options, why) || !memory_.open(why) || !channel_.open(why)) return false;
  log(LogLevel::info, "verbs",
      fmt::format("{}: {}", address().name,
                  capabilities(port_.library(), port_.context(), memory_.domain())));
  return true;
}

bool Rail::revive(const VerbsOptions& options, std::string& why) {
  events_.read();
  if (events_.dead())
    why = fmt::format("{}: {}; it does not return", address().name, events_.why_down());
  return !events_.dead() && port_.ask(options, why);
}

void Rail::watch(WaitSet& wait_set) {
  wait_set.add(channel_.fd(), EPOLLIN);
  wait_set.add(events_.fd(), EPOLLIN);
  wait_set_ = &wait_set;
}

void Rail::arm() noexcept {
  events_.read();
  channel_.arm();
}

}  // namespace ringwood::verbs
