#include "transports/control/goodbyes.h"

#include <chrono>

namespace ringwood {
namespace {

// Time for the peers to acknowledge a goodbye; the thread that sends it may have to wait for a
// core.
constexpr std::chrono::milliseconds kGoodbyeTime{200}, kStarvedTime{10'000};

}  // namespace

void Goodbyes::say() {
  leaving_ = true;
  connections_.send_to_present(MessageType::goodbye);
  check();
  std::lock_guard lock(mutex_);
  all_said_ = true;
  changed_.notify_all();
}

void Goodbyes::check() {
  if (!leaving_) return;
  for (int rank = 0; rank < connections_.size(); ++rank) {
    if (connections_.present(rank) && !seen_[rank]) return;
  }
  std::lock_guard lock(mutex_);
  all_seen_ = true;
  changed_.notify_all();
}

void Goodbyes::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kStarvedTime, [this] { return all_said_; });
  changed_.wait_for(lock, kGoodbyeTime, [this] { return all_seen_; });
}

}  // namespace ringwood
