#include "collectives/runtime/adoption.h"

#include "collectives/plan/buffers.h"

namespace ringwood {

Adoption::Adoption(const Mesh& mesh, const Options& options) : bytes_(options.adopt) {
  if (options.adopt > 0 && mesh.ranks_on_this_host > 1) adopted_ = Adopted::of_process();
}

void Adoption::adopt(const CollectiveState& op) {
  if (op.plan->protocol != Protocol::queued) return;
  for (const auto& bytes : sent_memory(*op.plan, op.buffers))
    if (bytes.size() >= bytes_) adopted_->used(bytes.data(), bytes.size());
}

void Adoption::withdraw(const CollectiveState& op) {
  if (!adopted_) return;
  for (const auto& bytes : memory(*op.plan, op.buffers))
    adopted_->withdraw(bytes.data(), bytes.size());
}

}  // namespace ringwood
