#include "collectives/runtime/remapping.h"

#include "collectives/plan/buffers.h"

namespace ringwood {

Remapping::Remapping(const Mesh& mesh, const Options& options) : bytes_(options.remap) {
  if (options.remap > 0 && mesh.ranks_on_this_host > 1) remapped_ = RemappedMemory::of_process();
}

void Remapping::remap(const CollectiveState& op) {
  if (op.call().plan->protocol != Protocol::queued) return;
  for (const auto& bytes : sent_memory(*op.call().plan, op.buffers()))
    if (bytes.size() >= bytes_) remapped_->used(bytes.data(), bytes.size());
}

void Remapping::withdraw(const CollectiveState& op) {
  if (!remapped_) return;
  for (const auto& bytes : memory(*op.call().plan, op.buffers()))
    remapped_->withdraw(bytes.data(), bytes.size());
}

}  // namespace ringwood
