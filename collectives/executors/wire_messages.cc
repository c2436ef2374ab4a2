#include "collectives/executors/wire_messages.h"

#include <algorithm>
#include <cstring>

namespace ringwood {
namespace {

// In tiles that stay in the first cache, each of whole blocks.
void add_decoded(Additions& additions, const BoundStep& step, size_t first, const std::byte* from,
                 size_t count) {
  constexpr size_t kTile = 1024;
  alignas(64) float tile[kTile];
  const WireBlock block = block_of(step.wire);
  for (size_t i = 0; i < count; i += kTile) {
    const size_t size = std::min(kTile, count - i);
    decode(step.wire, tile, from + i / block.elements * block.bytes, size);
    additions.add(step, (first + i) * sizeof(float),
                  {reinterpret_cast<const std::byte*>(tile), size * sizeof(float)});
  }
}

void decode_blocks(const PlanExecution& execution, Additions& additions, const BoundStep& step,
                   size_t first, const std::byte* from, size_t count) {
  if (step.kind == StepKind::recv_reduce && execution.plan->scaling.on)
    return add_decoded(additions, step, first, from, count);
  float* const to = reinterpret_cast<float*>(execution.at(step.dst)) + first;
  (step.kind == StepKind::recv ? decode : decode_add)(step.wire, to, from, count);
}

}  // namespace

const std::byte* encode_message(const PlanExecution& execution, const BoundStep& step) {
  std::byte* const staging = execution.at(step.staging);
  encode(step.wire, staging, reinterpret_cast<const float*>(execution.at(step.src)),
         step.bytes / sizeof(float));
  return staging;
}

void decode_piece(const PlanExecution& execution, Additions& additions, const BoundStep& step,
                  std::byte* cut, size_t offset, std::span<const std::byte> piece) {
  const WireBlock block = block_of(step.wire);
  const size_t count = step.bytes / sizeof(float);
  while (!piece.empty()) {
    const size_t begun = offset % block.bytes, first = offset / block.bytes * block.elements;
    const bool last = offset + piece.size() == step.message_bytes;
    size_t taken = piece.size();
    if (begun == 0 && (last || piece.size() >= block.bytes)) {
      if (!last) taken -= taken % block.bytes;
      const size_t whole = taken / block.bytes * block.elements;
      decode_blocks(execution, additions, step, first, piece.data(), last ? count - first : whole);
    } else {
      taken = std::min(taken, block.bytes - begun);
      std::memcpy(cut + begun, piece.data(), taken);
      if (begun + taken == block.bytes || offset + taken == step.message_bytes)
        decode_blocks(execution, additions, step, first, cut,
                      std::min(block.elements, count - first));
    }
    offset += taken;
    piece = piece.subspan(taken);
  }
}

void round_in_place(const PlanExecution& execution, const BoundStep& step) {
  round_to(step.wire, reinterpret_cast<float*>(execution.at(step.dst)), step.bytes / sizeof(float));
}

}  // namespace ringwood
