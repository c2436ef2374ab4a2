#include "collectives/runtime/work_queue.h"

#include <utility>

namespace ringwood {

void WorkQueue::number(CollectiveState& operation) {
  operation.number = static_cast<int64_t>(sequence_);
  operation.fingerprint = operation.plan->fingerprint;
  operation.fingerprint.sequence = sequence_++;
  operation.fingerprint.priority = static_cast<uint8_t>(operation.priority);
  if (operation.parts == 0) return;
  operation.fingerprint.blocks = operation.parts;
  operation.fingerprint.even = Fingerprint::kPacked;
}

void WorkQueue::push(const EngineLock&, std::shared_ptr<CollectiveState> operation) {
  number(*operation);
  pending_.fetch_add(1);
  collectives_.push_back(std::move(operation));
  fresh_.store(true);
}

void WorkQueue::push(const EngineLock&, std::shared_ptr<MessageState> message) {
  pending_.fetch_add(1);
  messages_.push_back(std::move(message));
  fresh_.store(true);
}

std::shared_ptr<CollectiveState> WorkQueue::take_collective(const EngineLock&) {
  if (collectives_.empty()) return nullptr;
  auto next = std::move(collectives_[first_]);
  if (++first_ * 2 >= collectives_.size()) {
    collectives_.erase(collectives_.begin(), collectives_.begin() + static_cast<long>(first_));
    first_ = 0;
  }
  return next;
}

std::vector<std::shared_ptr<MessageState>> WorkQueue::take_messages(const EngineLock&) {
  return std::exchange(messages_, {});
}

void WorkQueue::drop(const EngineLock&, Operations& dropped) {
  for (; first_ < collectives_.size(); ++first_) dropped.push_back(std::move(collectives_[first_]));
  collectives_.clear();
  first_ = 0;
}

std::shared_ptr<CollectiveState> WorkQueue::late(const EngineLock&, Clock::time_point now) const {
  for (size_t i = first_; i < collectives_.size(); ++i)
    if (collectives_[i]->late(now)) return collectives_[i];
  return nullptr;
}

}  // namespace ringwood
