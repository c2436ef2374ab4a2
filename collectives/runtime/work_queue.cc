#include "collectives/runtime/work_queue.h"

#include <utility>

#include "collectives/recorder/recorder.h"

namespace ringwood {
namespace {

// Apart, so that an operation without a record pays for no call.
[[gnu::noinline]] void note_entry(CollectiveRun& run) { run.entered_ns = clock_ns(); }

}  // namespace

void WorkQueue::number(CollectiveState& operation) {
  const CollectiveCall& call = operation.call();
  const RecordedFacts& recorded = call.plan->recorded;
  CollectiveRun& run = operation.run;
  const uint64_t number = calls_->take(recorded.kind);
  operation.number = static_cast<int64_t>(number);
  if (call.priority == Priority::high) {
    run.track = tracks_ - 1;
  } else {
    run.track = next_track_;
    if (++next_track_ >= tracks_ - 1) next_track_ = 0;
  }
  run.entered_ns = 0;
  if (is_recorded(recorded, number)) [[unlikely]]
    note_entry(run);
}

void WorkQueue::push(const EngineLock&, std::shared_ptr<CollectiveState> operation) {
  collectives_.push_back(std::move(operation));
  number(*collectives_.back());
  pending_.fetch_add(1);
  fresh_.store(true);
}

void WorkQueue::push(const EngineLock&, std::shared_ptr<MessageState> message) {
  messages_.push_back(std::move(message));
  pending_.fetch_add(1);
  fresh_.store(true);
}

}  // namespace ringwood
