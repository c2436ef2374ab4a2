#include "collectives/recorder/recorder.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace ringwood {
namespace {

struct OfProcess {
  std::mutex mutex;
  std::vector<std::weak_ptr<const Recorder>> recorders;
};

// Never destroyed: threads may read while the process ends.
OfProcess& of_process() {
  static auto* const all = new OfProcess;
  return *all;
}

}  // namespace

Recorder::Recorder(RecordedGroup group, std::shared_ptr<const CallCounter> calls)
    : group_(std::move(group)),
      calls_(std::move(calls)),
      waits_(static_cast<size_t>(group_.size)) {}

PeerWaits Recorder::waits_for(int peer) const {
  const Waits& waits = waits_[static_cast<size_t>(peer)];
  return {waits.operations.load(std::memory_order_relaxed),
          static_cast<int64_t>(waits.waited_ns.load(std::memory_order_relaxed))};
}

std::vector<OperationRecord> Recorder::latest(size_t most) const {
  const uint64_t end = operations_.written();
  const uint64_t begin = std::max(operations_.oldest(), end - std::min<uint64_t>(end, most));
  std::vector<OperationRecord> all;
  for (uint64_t number = begin; number < end; ++number) {
    if (const auto record = operations_.read(number))
      all.push_back(*record);
    else
      all.clear();  // the driver was faster: none is missing between those that are returned
  }
  return all;
}

std::vector<OperationRecord> Recorder::running() const {
  std::vector<OperationRecord> all;
  for (const auto& track : running_) {
    const OperationRecord record = track.read();
    if (record.waiting_ns != 0 || record.begun_ns != 0)
      if (record.end == RecordedEnd::running) all.push_back(record);
  }
  std::ranges::sort(all, {}, [](const OperationRecord& one) { return one.call.sequence; });
  return all;
}

std::vector<StepRecord> Recorder::steps_of(const OperationRecord& operation) const {
  const uint64_t written = steps_.written();
  const bool running = operation.end == RecordedEnd::running;
  const uint64_t end = running ? written : std::min(operation.end_step, written);
  std::vector<StepRecord> all;
  for (uint64_t number = std::max(operation.first_step, steps_.oldest()); number < end; ++number)
    if (const auto record = steps_.read(number))
      if (record->sequence == operation.call.sequence) all.push_back(*record);
  return all;
}

std::vector<StepRecord> Recorder::latest_steps() const {
  const uint64_t end = steps_.written();
  std::vector<StepRecord> all;
  for (uint64_t number = steps_.oldest(); number < end; ++number)
    if (const auto record = steps_.read(number)) all.push_back(*record);
  return all;
}

void Recorder::add(const OperationRecord& operation) {
  operations_.add(operation);
  if (operation.waited_for < 0 || operation.waited_for >= group_.size) return;
  const int64_t since = operation.begun_ns ? operation.begun_ns : operation.waiting_ns;
  const int64_t until = operation.agreed_ns ? operation.agreed_ns : operation.ended_ns;
  Waits& waits = waits_[static_cast<size_t>(operation.waited_for)];
  add(waits.operations, 1);
  add(waits.waited_ns, static_cast<uint64_t>(std::max<int64_t>(0, until - since)));
}

void Recorder::set_running(int track, const OperationRecord& operation) {
  running_[static_cast<size_t>(track)].post(operation);
}

std::vector<std::shared_ptr<const Recorder>> recorders_of_process() {
  OfProcess& all = of_process();
  std::vector<std::shared_ptr<const Recorder>> live;
  const std::lock_guard lock(all.mutex);
  for (const auto& one : all.recorders)
    if (auto recorder = one.lock()) live.push_back(std::move(recorder));
  return live;
}

void enter_recorder(const std::shared_ptr<const Recorder>& recorder) {
  OfProcess& all = of_process();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.recorders, [](const auto& one) { return one.expired(); });
  all.recorders.push_back(recorder);
}

}  // namespace ringwood
