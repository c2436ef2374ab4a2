// Many operands to many results, tile by tile: a tile stays in the first cache while it is reduced.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "collectives/reduce.h"

namespace ringwood {
namespace {

constexpr size_t kTileBytes = 4096;

const void* at(const void* start, size_t bytes) {
  return static_cast<const uint8_t*>(start) + bytes;
}

void reduce_wide_tile(void* tile, std::span<const void* const> srcs, size_t from, size_t count,
                      DataType type, ReduceOp op, int64_t divisor) {
  float wide[kTileBytes];
  widen(wide, at(srcs[0], from), count, type);
  for (const void* src : srcs.subspan(1)) reduce_wide(wide, at(src, from), count, type, op);
  if (divisor != 1) divide(wide, count, DataType::float32, divisor);
  narrow(tile, wide, count, type);
}

void reduce_tile(void* tile, std::span<const void* const> srcs, size_t from, size_t count,
                 DataType type, ReduceOp op, int64_t divisor) {
  std::memcpy(tile, at(srcs[0], from), count * size_of(type));
  for (const void* src : srcs.subspan(1)) reduce(tile, at(src, from), count, type, op);
  if (divisor != 1) divide(tile, count, type, divisor);
}

}  // namespace

void reduce_many(std::span<void* const> dsts, std::span<const void* const> srcs, size_t count,
                 DataType type, ReduceOp op, int64_t divisor) {
  alignas(64) uint8_t tile[kTileBytes];
  const auto reduce_one = accumulates_wide(type, op) ? reduce_wide_tile : reduce_tile;
  const size_t bytes = count * size_of(type);
  for (size_t from = 0; from < bytes; from += kTileBytes) {
    const size_t size = std::min(kTileBytes, bytes - from);
    reduce_one(tile, srcs, from, size / size_of(type), type, op, divisor);
    for (void* dst : dsts) std::memcpy(static_cast<uint8_t*>(dst) + from, tile, size);
  }
}

}  // namespace ringwood
