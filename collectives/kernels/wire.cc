#include "collectives/kernels/wire.h"

#include <algorithm>
#include <cmath>

#include "collectives/kernels/reduce_kernels.h"

namespace ringwood {

const char* to_string(WireFormat format) {
  switch (format) {
    case WireFormat::exact: return "float32";
    case WireFormat::bf16: return "bf16";
    case WireFormat::int8: return "int8";
  }
  return "an unknown format";
}

bool may_encode(Collective collective, DataType type, ReduceOp op) {
  return reduces(collective) && type == DataType::float32 &&
         (op == ReduceOp::sum || op == ReduceOp::avg);
}

WireBlock block_of(WireFormat format) {
  switch (format) {
    case WireFormat::exact: break;
    case WireFormat::bf16: return {1, 2};
    case WireFormat::int8: return {kInt8Block, sizeof(float) + kInt8Block};
  }
  return {};
}

size_t wire_bytes(WireFormat format, size_t count) {
  const WireBlock block = block_of(format);
  const size_t rest = count % block.elements;
  return count / block.elements * block.bytes +
         (rest == 0 ? 0 : sizeof(float) + (rest + 3) / 4 * 4);
}

double error_bound(WireFormat format, int roundings) {
  if (format == WireFormat::exact) return 0;
  const double one = format == WireFormat::bf16 ? 1.0 / 256 : 1.0 / 253;
  return std::pow(1 + one, roundings) - 1;
}

double needed_tolerance(WireFormat format, int roundings) {
  return error_bound(format, roundings) * (format == WireFormat::int8 ? 4 : 1);
}

void encode(WireFormat format, void* out, const float* in, size_t count) {
  if (count == 0) return;
  if (format == WireFormat::bf16) return narrow(out, in, count, DataType::bfloat16);
  kernels_in_force().encode_int8(out, in, count);
}

void decode(WireFormat format, float* out, const void* in, size_t count) {
  if (count == 0) return;
  if (format == WireFormat::bf16) return widen(out, in, count, DataType::bfloat16);
  kernels_in_force().decode_int8(out, in, count);
}

void decode_add(WireFormat format, float* sum, const void* in, size_t count) {
  if (count == 0) return;
  if (format == WireFormat::bf16)
    return reduce_wide(sum, in, count, DataType::bfloat16, ReduceOp::sum);
  kernels_in_force().add_int8(sum, in, count);
}

// Works in tiles that stay in the first cache.
void round_to(WireFormat format, float* data, size_t count) {
  constexpr size_t kTile = 4 * kInt8Block;
  alignas(64) std::byte tile[kTile * sizeof(float)];
  for (size_t at = 0; at < count; at += kTile) {
    const size_t size = std::min(kTile, count - at);
    encode(format, tile, data + at, size);
    decode(format, data + at, tile, size);
  }
}

}  // namespace ringwood
