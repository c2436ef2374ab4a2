#include "collectives/plan/buffers.h"

#include <algorithm>
#include <cstring>

namespace ringwood {
namespace {

std::vector<std::span<const std::byte>> joined(const Plan& plan, std::span<void* const> buffers,
                                               bool only_sent) {
  std::vector<std::span<const std::byte>> found;
  for (size_t i = 0; i < plan.memory.uses.size(); ++i) {
    const BufferUse& use = plan.memory.uses[i];
    if (use.bytes() == 0 || (only_sent && !use.sent)) continue;
    const std::span bytes(static_cast<const std::byte*>(buffers[i]), use.bytes());
    if (!found.empty() && found.back().data() + found.back().size() == bytes.data())
      found.back() = {found.back().data(), found.back().size() + bytes.size()};
    else
      found.push_back(bytes);
  }
  return found;
}

void widen(size_t& reach, const Place& place, size_t bytes) {
  reach = std::max(reach, place.offset + bytes);
}

}  // namespace

std::vector<BufferUse> uses_of(std::span<const BoundStep> steps) {
  std::vector<BufferUse> uses;
  BufferUse scratch;
  const auto use = [&](const Place& place) -> BufferUse& {
    if (place.buffer == kScratch) return scratch;
    const auto number = static_cast<size_t>(place.buffer);
    if (number >= uses.size()) uses.resize(number + 1);
    return uses[number];
  };
  for (const BoundStep& step : steps) {
    if (step.bytes == 0) continue;
    if (step.kind != StepKind::send) widen(use(step.dst).written, step.dst, step.bytes);
    if (step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce)
      widen(use(step.dst).read, step.dst, step.bytes);
    if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) continue;
    widen(use(step.src).read, step.src, step.bytes);
    const bool on_its_way =
        step.kind == StepKind::send || (step.kind == StepKind::copy && step.dst.buffer == kScratch);
    if (on_its_way) use(step.src).sent = true;
  }
  return uses;
}

std::vector<std::span<const std::byte>> sent_memory(const Plan& plan,
                                                    std::span<void* const> buffers) {
  return joined(plan, buffers, true);
}

std::vector<std::span<const std::byte>> memory(const Plan& plan, std::span<void* const> buffers) {
  return joined(plan, buffers, false);
}

bool overlap(const void* a, const void* b, size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(a);
  const auto* const second = static_cast<const std::byte*>(b);
  return first < second + bytes && second < first + bytes;
}

void move_bytes(void* to, const void* from, size_t bytes) {
  constexpr size_t kPiece = 128 << 10;  // as links copy
  auto* const dst = static_cast<std::byte*>(to);
  const auto* const src = static_cast<const std::byte*>(from);
  if (overlap(dst, src, bytes)) {
    std::memmove(dst, src, bytes);
    return;
  }
  for (size_t done = 0; done < bytes; done += kPiece)
    std::memcpy(dst + done, src + done, std::min(kPiece, bytes - done));
}

}  // namespace ringwood
