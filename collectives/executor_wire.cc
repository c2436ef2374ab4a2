// The executor's part in wire formats: what is encoded on its way out, and decoded on its way in.
#include <algorithm>
#include <cstring>

#include "collectives/executor.h"

namespace ringwood {

Status Executor::post_encoded(Run& run, int32_t index) {
  const BoundStep& step = request_.plan->steps[index];
  ++run.sends_posted;
  const auto* const from = reinterpret_cast<const float*>(at(step.src));
  encode(step.wire, at(step.staging), from, step.bytes / sizeof(float));
  if (Status s = run.link->post_send(at(step.staging), step.message_bytes); !s)
    return at_step(s.error(), index);
  return {};
}

// Pieces may end within a block: its parts are put together beside.
void Executor::decode_piece(const Run& run, const BoundStep& step,
                            std::span<const std::byte> piece) {
  const WireBlock block = block_of(step.wire);
  const size_t count = step.bytes / sizeof(float);
  std::byte* const cut = at(run.queue->cut);
  for (size_t offset = run.shown_offset; !piece.empty();) {
    const size_t begun = offset % block.bytes, first = offset / block.bytes * block.elements;
    const bool last = offset + piece.size() == step.message_bytes;
    size_t taken = piece.size();
    if (begun == 0 && (last || piece.size() >= block.bytes)) {
      if (!last) taken -= taken % block.bytes;
      const size_t whole = taken / block.bytes * block.elements;
      decode_blocks(step, first, piece.data(), last ? count - first : whole);
    } else {
      taken = std::min(taken, block.bytes - begun);
      std::memcpy(cut + begun, piece.data(), taken);
      if (begun + taken == block.bytes || offset + taken == step.message_bytes)
        decode_blocks(step, first, cut, std::min(block.elements, count - first));
    }
    offset += taken;
    piece = piece.subspan(taken);
  }
}

void Executor::decode_blocks(const BoundStep& step, size_t first, const std::byte* from,
                             size_t count) {
  float* const to = reinterpret_cast<float*>(at(step.dst)) + first;
  if (step.kind == StepKind::recv_reduce && request_.plan->scaling.on)
    return add_decoded(step, first, from, count);
  (step.kind == StepKind::recv ? decode : decode_add)(step.wire, to, from, count);
}

// In tiles that stay in the first cache, each of whole blocks.
void Executor::add_decoded(const BoundStep& step, size_t first, const std::byte* from,
                           size_t count) {
  constexpr size_t kTile = 1024;
  alignas(64) float tile[kTile];
  const WireBlock block = block_of(step.wire);
  for (size_t i = 0; i < count; i += kTile) {
    const size_t size = std::min(kTile, count - i);
    decode(step.wire, tile, from + i / block.elements * block.bytes, size);
    add_scaled(step, (first + i) * sizeof(float),
               {reinterpret_cast<const std::byte*>(tile), size * sizeof(float)});
  }
}

// One for each pass over the links, so that what the first is for leaves before the last is run.
void Executor::run_rounding(bool& progressed) {
  const int32_t index = roundings_[rounded_++];
  const BoundStep& step = request_.plan->steps[index];
  round_to(step.wire, reinterpret_cast<float*>(at(step.dst)), step.bytes / sizeof(float));
  progressed = true;
  complete(index);
}

}  // namespace ringwood
