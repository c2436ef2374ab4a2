#include "collectives/runtime/in_flight.h"

#include <utility>

#include "collectives/buffers.h"

namespace ringwood {

InFlight::InFlight(Mesh& mesh, const Options& options, Role& role, WorkQueue& queue,
                   RunningStatus& status)
    : mesh_(mesh),
      role_(role),
      queue_(queue),
      status_(status),
      runner_(mesh),
      messages_(mesh),
      adopt_bytes_(options.adopt) {
  if (options.adopt > 0 && mesh.ranks_on_this_host > 1) adopted_ = Adopted::of_process();
}

void InFlight::take_messages() {
  for (auto& message : queue_.take_messages(role_.lock())) messages_.add(std::move(message));
}

Status InFlight::step_collective(bool& progressed, Operations& finished) {
  if (!current_) {
    current_ = queue_.take_collective(role_.lock());
    if (!current_) return {};
  }
  CollectiveState& op = *current_;
  if (runner_.idle()) start();
  if (Status s = runner_.step(progressed); !s) return s;
  if (op.prepare && !op.prepared && runner_.agreed()) {
    op.prepare();
    op.prepared = progressed = true;
    runner_.release();
  }
  if (!runner_.idle()) return {};
  if (op.finish) op.finish();
  status_.end();
  if (&op != unshared_) {
    finished.push_back(std::move(current_));
    return {};
  }
  op.settle_unshared();  // nobody else can have asked to be told
  current_ = nullptr;
  queue_.settled(1);
  return {};
}

void InFlight::start() {
  const CollectiveState& op = *current_;
  if (adopted_) adopt(op);
  runner_.start({op.plan.get(), op.fingerprint, op.buffers, op.send_counts, op.recv_counts,
                 op.prepare && op.holds, op.factors.get()});
  status_.begin(op.fingerprint);  // while the first words are on their way
}

// The buffers are ours from now on, until the operation is settled.
void InFlight::adopt(const CollectiveState& op) {
  if (op.plan->protocol != Protocol::queued) return;
  for (const auto& bytes : sent_memory(*op.plan, op.buffers))
    if (bytes.size() >= adopt_bytes_) adopted_->used(bytes.data(), bytes.size());
}

void InFlight::withdraw(const CollectiveState& op) {
  for (const auto& bytes : memory(*op.plan, op.buffers))
    adopted_->withdraw(bytes.data(), bytes.size());
}

void InFlight::drop(Operations& dropped) {
  queue_.drop(role_.lock(), dropped);
  if (!std::exchange(links_aborted_, true))
    for (Peer& peer : mesh_.peers)
      for (auto& link : peer.link)
        if (link) link->abort();
  if (current_ && adopted_) withdraw(*current_);
  if (current_) dropped.push_back(std::move(current_));
  current_ = nullptr;
  runner_.drop();
  messages_.drop(dropped);
}

std::shared_ptr<CollectiveState> InFlight::late_collective(Clock::time_point now) const {
  if (current_ && current_->late(now)) return current_;
  return queue_.late(role_.lock(), now);
}

}  // namespace ringwood
