#include "transports/verbs/path/path.h"

#include <cerrno>

namespace ringwood::verbs {
namespace {

constexpr int kRenewEvery = 16;
constexpr Duration kPatience = std::chrono::seconds(3);
constexpr Duration kPatienceWithDead = std::chrono::milliseconds(100);

}  // namespace

bool Path::make(ibv_cq* queue, const PathSetting& setting, std::string& why) {
  outages_ = pair_.rail().events().outages();
  if (!pair_.make(queue, setting, why)) return false;
  receives_ = kReceives;
  return true;
}

bool Path::connect(const PathEnd& peer, const RailAddress& rail, const PathSetting& setting,
                   Deadline patience, std::string& why) {
  if (!pair_.connect(peer, rail, setting, patience, why)) return false;
  state_ = State::proving;
  return true;
}

uint64_t Path::write(const Write& write) {
  const bool signalled = write.signalled || writes_.signals_next(write.bytes);
  if (!pair_.write(write, writes_.next(), signalled)) return 0;
  return writes_.add(write.bytes, signalled);
}

bool Path::renew_receives(bool all) {
  if (!connected() || owed_ < (all ? 1 : kRenewEvery)) return true;
  const int count = owed_;
  owed_ = 0;
  if (!pair_.receive(count)) return false;
  receives_ += count;
  return true;
}

void Path::close() {
  if (state_ == State::made) state_ = State::closed;  // no peer can write to it
  if (!connected()) return;
  stop();
  state_ = State::closing;
  patience_ = Deadline::after(pair_.rail().events().dead() ? kPatienceWithDead : kPatience);
}

bool Path::destroy() {
  // The kernel may already have removed everything of a dead device, and refuses.
  const int error = pair_.destroy();
  errno = error;
  if (error != 0 && !pair_.rail().events().dead()) return false;
  receives_ = 0;
  return drain();
}

bool Path::drain() {
  if (state_ != State::closing || receives_ > 0) return false;
  state_ = State::closed;
  return true;
}

}  // namespace ringwood::verbs
