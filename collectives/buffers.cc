#include "collectives/buffers.h"

#include <algorithm>
#include <cstring>

namespace ringwood {
namespace {

struct Extent {
  size_t bytes = 0;
  bool sent = false;
};

std::vector<Extent> extents(const Plan& plan, size_t buffers) {
  std::vector<Extent> all(buffers);
  const auto widen = [&](const Place& place, size_t bytes) {
    if (place.buffer == kScratch) return;
    Extent& extent = all[static_cast<size_t>(place.buffer)];
    extent.bytes = std::max(extent.bytes, place.offset + bytes);
  };
  for (const BoundStep& step : plan.steps) {
    if (step.bytes == 0) continue;
    if (step.kind != StepKind::send) widen(step.dst, step.bytes);
    if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) continue;
    widen(step.src, step.bytes);
    const bool on_its_way =
        step.kind == StepKind::send || (step.kind == StepKind::copy && step.dst.buffer == kScratch);
    if (on_its_way && step.src.buffer != kScratch)
      all[static_cast<size_t>(step.src.buffer)].sent = true;
  }
  return all;
}

std::vector<std::span<const std::byte>> joined(const Plan& plan, std::span<void* const> buffers,
                                               bool only_sent) {
  const auto all = extents(plan, buffers.size());
  std::vector<std::span<const std::byte>> found;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (all[i].bytes == 0 || (only_sent && !all[i].sent)) continue;
    const std::span bytes(static_cast<const std::byte*>(buffers[i]), all[i].bytes);
    if (!found.empty() && found.back().data() + found.back().size() == bytes.data())
      found.back() = {found.back().data(), found.back().size() + bytes.size()};
    else
      found.push_back(bytes);
  }
  return found;
}

}  // namespace

std::vector<std::span<const std::byte>> sent_memory(const Plan& plan,
                                                    std::span<void* const> buffers) {
  return joined(plan, buffers, true);
}

std::vector<std::span<const std::byte>> memory(const Plan& plan, std::span<void* const> buffers) {
  return joined(plan, buffers, false);
}

void move_bytes(void* to, const void* from, size_t bytes) {
  constexpr size_t kPiece = 128 << 10;  // as links copy
  auto* const dst = static_cast<std::byte*>(to);
  const auto* const src = static_cast<const std::byte*>(from);
  const bool apart = dst + bytes <= src || src + bytes <= dst;
  if (!apart) {
    std::memmove(dst, src, bytes);
    return;
  }
  for (size_t done = 0; done < bytes; done += kPiece)
    std::memcpy(dst + done, src + done, std::min(kPiece, bytes - done));
}

}  // namespace ringwood
