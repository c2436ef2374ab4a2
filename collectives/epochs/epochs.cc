#include "collectives/epochs/epochs.h"

#include <algorithm>

namespace ringwood {

void Epochs::set_stop() {
  stop_ = std::min(delayed_from_.load(), next_.empty() ? kNever : next_.front().from);
}

uint32_t Epochs::enter(uint64_t sequence) {
  for (; !next_.empty() && sequence >= next_.front().from; next_.pop_front())
    current_ = next_.front().number;
  set_stop();
  return current_;
}

uint64_t Epochs::prepare(uint32_t epoch, uint64_t next, uint64_t ahead) {
  prepared_ = epoch;
  uint64_t first = next + ahead;
  if (!next_.empty()) first = std::max(first, next_.back().from + 1);
  delayed_from_.store(first);
  set_stop();
  return first;
}

bool Epochs::commit(uint32_t epoch, uint64_t from) {
  if (epoch != prepared_ || from < delayed_from_.load()) return false;
  next_.push_back({epoch, from});
  return abandon(epoch);
}

bool Epochs::abandon(uint32_t epoch) {
  if (epoch != prepared_ || epoch == 0) return false;
  prepared_ = 0;
  delayed_from_.store(kNever);
  set_stop();
  return true;
}

}  // namespace ringwood
