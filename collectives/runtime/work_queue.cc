#include "collectives/runtime/work_queue.h"

#include <utility>

namespace ringwood {

void WorkQueue::number(CollectiveState& operation) {
  operation.number = static_cast<int64_t>(sequence_);
  operation.fingerprint.sequence = sequence_++;
  operation.fingerprint.priority = static_cast<uint8_t>(operation.priority);
  if (operation.priority == Priority::high) {
    operation.track = tracks_ - 1;
  } else {
    operation.track = next_track_;
    if (++next_track_ >= tracks_ - 1) next_track_ = 0;
  }
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

}  // namespace ringwood
