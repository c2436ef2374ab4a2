// Wire formats: the representation of fp32 on links between hosts, where the user allows an error
// (RINGWOOD_TOLERANCE, CallOptions::tolerance). Sums are always computed in fp32.
//
//   format   bytes      error of one rounding                     needs a tolerance of
//   exact    1          none                                      0
//   bf16     1/2        2^-8 of the number                        0.004 for each rounding
//   int8     260/1024   1/253 of the largest of a block of 256    0.016 for each rounding
//
// How often a value is rounded on its way to the result is a property of the schedule
// (wire_schedule.h): twice in an all_reduce `direct`, once between two ranks. The tolerance bounds
// the error of the result, relative to the sum of the operands' magnitudes. With int8 it does so
// for numbers from a quarter of the largest of their block up, hence the 4 / 253; smaller ones have
// the absolute error of those. So int8 is for numbers of similar magnitude within 256 neighbours.
//
// Only fp32, and only its sums, are encoded: 16-bit types are half as large already, users of fp64
// need its bits, the other operations choose among operands and so should return one of them, and
// collectives that only move data (broadcast, gather) are expected not to change it.
//
// int8: a block is an fp32 scale and then codes from -127 to 127, one for each element. The scale
// is the largest magnitude / 127, truncated to 17 significant bits: code * scale is then exact, and
// so rounding again changes nothing:
//   decode(encode(decode(encode(x)))) == decode(encode(x)), bit for bit, in both formats.
// (A power of two would do that as well, at up to twice the error.) Four codes share a 32-bit word,
// a quarter of the block apart, so that no vector of any width has to move elements between lanes.
//
// Specials: bf16 keeps NaN and infinities; numbers above 3.39e38 become infinite. A block of int8
// with a NaN or an infinity in it becomes NaN as a whole: never a number.
//
// All functions are pure; any thread; no alignment is assumed. Encoded data decodes to the same
// bits on every machine; where a number is in the middle of two codes, the instruction set decides
// between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire_format.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

// Whether such an operation may be encoded at all.
bool may_encode(Collective collective, DataType type, ReduceOp op);

// Blocks are encoded one by one: element `elements` * k begins at byte `bytes` * k.
struct WireBlock {
  size_t elements = 1, bytes = sizeof(float);
};
WireBlock block_of(WireFormat format);
// The size of `count` elements; the last block may be shorter.
size_t wire_bytes(WireFormat format, size_t count);

// The error of this many roundings, each of the result of another: relative to the sum of
// the operands' magnitudes (bf16), or to the sum of each operand's largest magnitude in the
// block (int8).
double error_bound(WireFormat format, int roundings);
// The tolerance that this many roundings need.
double needed_tolerance(WireFormat format, int roundings);

// Encodes `count` elements from the beginning of a block; `out` has wire_bytes(). Not for `exact`.
void encode(WireFormat format, void* out, const float* in, size_t count);
void decode(WireFormat format, float* out, const void* in, size_t count);
void decode_add(WireFormat format, float* sum, const void* in, size_t count);  // sum += decoded
// data = decode(encode(data)).
void round_to(WireFormat format, float* data, size_t count);

}  // namespace ringwood
