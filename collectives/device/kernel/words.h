// What a device's thread blocks read, and the memory that the ranks of a device group share. Plain
// data with the same layout on host and device; compiled by both compilers.
//
// A block carries out one segment of an operation. Its program (device/program.h) is a list of
// words, bound to sizes (device/bind_words.h).
//
// A window is memory of one rank that its peers write, zeroed before its first use. Every word in
// it has exactly one writer:
//
//   sequence[segment]             the owner: operations so far. The kernel itself counts on, so
//                                 that a graph is replayed without the host.
//   busy[segment]                 the owner: 1 while a kernel of this group runs
//   hello[2][segment][from]       the peer `from`; by parity of the sequence
//   point[segment][from]          the peer `from`: sequence << 16 | number. Only grows.
//   packets[2][segment][words]    whoever sends the message that owns the slot; 4 bytes of data in
//                                 the low half, the low half of the sequence in the high one
//
// Invariants, from one operation to the next:
// 1. An operation begins with a hello to every rank, and a rank writes nothing of its user's before
//    it has heard the hellos of all.
// 2. Hellos and packets are doubled by parity: a rank that writes those of operation v + 2 has
//    heard v + 1 from all, so v is over everywhere. So packets may leave before the hellos are
//    heard.
// 3. A kernel ends only when nobody reads or writes its rank's memory any more.
// 4. Packets that nobody has written for 2^32 operations would look new: each rank clears its own
//    once in 2^31. It does so before its hello of operation v, with those of v + 1, which nobody
//    sends before that hello is heard.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define RINGWOOD_DEVICE __host__ __device__ __forceinline__
#define RINGWOOD_DEVICE_COLD __host__ __device__ __noinline__
#define RINGWOOD_UNROLL _Pragma("unroll")
#else
#define RINGWOOD_DEVICE inline
#define RINGWOOD_DEVICE_COLD
#define RINGWOOD_UNROLL
#endif

namespace ringwood::device {

inline constexpr int kMaxRanks = 72;     // of an island: those that map each other's memory
inline constexpr int kMaxSegments = 64;  // thread blocks of a launch
// Sources and destinations of a pass.
inline constexpr int kMaxPassOperands = 2 * 16;

// ---- the program -------------------------------------------------------------------------------

enum class WordVerb : uint8_t { end, pass, post, wait };

// Where an operand lies. Input, output and scratch are of any rank; a rank says in its hello where
// it has them.
enum class Space : uint8_t {
  input,
  output,
  scratch,
  slot,        // packets of the rank's window
  wide,        // of this rank: fp32 sums in scratch, whose row of additions goes on
  user_input,  // of this rank, where its user's memory is not mapped by the peers
  user_output
};
inline constexpr int kSharedSpaces = 3;  // the first ones

// What a reduction does with its operands, left to right. The host turns a type's operation into
// one of these (device/bind_words.h), so that the device knows no averages of numbers of bool.
enum class Fold : uint8_t {
  sum,  // integers: divided by `divisor` where the word finishes
  min,
  max,
  product,
  band,
  bor,
  bxor,
  scaled,  // floats: own operands times a factor; divided where the word finishes
  mean     // of all operands at once, without the overflow of their sum
};

enum WordFlags : uint8_t {
  kEarly = 1,     // may run before the hellos are heard: reads own memory, writes packets only
  kPrologue = 2,  // runs before this rank's own hello: fills its staging
  kFinish = 4,    // completes a sum of all ranks
  kPacked = 8,    // an operand is a slot
  kWide = 16      // an operand is wide
};

struct alignas(16) Word {
  WordVerb verb = WordVerb::end;
  uint8_t dsts = 0, srcs = 0;  // of a pass, destinations first; post, wait: srcs peers
  uint8_t flags = 0;
  uint32_t operand = 0;  // the first one
  uint64_t bytes = 0;
};

enum OperandFlags : uint8_t { kOwn = 1 };  // own numbers of rank `number`, which are scaled

struct alignas(16) Operand {
  uint16_t rank = 0;
  Space space = Space::input;
  uint8_t flags = 0;
  uint32_t number = 0;  // post, wait: the point; a source: see kOwn
  uint64_t offset = 0;  // bytes
};
static_assert(sizeof(Word) == 16 && sizeof(Operand) == 16, "read at once");

// ---- shared memory -----------------------------------------------------------------------------

// Where a rank has its input, output and scratch: segment of memory << 56 | offset.
using PlaceWord = uint64_t;

struct Hello {
  uint64_t stamp = 0;  // low half of the sequence << 32 | digest of the call; written last
  PlaceWord place[kSharedSpaces] = {};
  uint64_t factor = 0;  // of PREMUL_SUM, a double's bits
};

// The layout of a window; the same on all ranks of a group. Offsets in bytes from its beginning.
struct WindowLayout {
  uint32_t ranks = 0, segments = 0;
  uint32_t packet_bytes = 0;  // for one segment and parity; a multiple of 16

  RINGWOOD_DEVICE size_t sequence(int segment) const { return size_t(segment) * 8; }
  RINGWOOD_DEVICE size_t busy(int segment) const { return (segments + size_t(segment)) * 8; }
  RINGWOOD_DEVICE size_t hello(uint64_t parity, int segment, int from) const {
    return size_t(segments) * 16 +
           ((parity * segments + size_t(segment)) * ranks + size_t(from)) * sizeof(Hello);
  }
  RINGWOOD_DEVICE size_t point(int segment, int from) const {
    return hello(2, 0, 0) + (size_t(segment) * ranks + size_t(from)) * 8;
  }
  RINGWOOD_DEVICE size_t packets(uint64_t parity, int segment) const {
    const size_t begin = (point(int(segments), 0) + 255) & ~size_t(255);
    return begin + (parity * segments + size_t(segment)) * packet_bytes;
  }
  RINGWOOD_DEVICE size_t bytes() const { return (packets(2, 0) + 255) & ~size_t(255); }
};

// A range of a rank's memory, as the reader maps it.
struct MappedMemory {
  char* base = nullptr;
  uint64_t bytes = 0;
};
inline constexpr int kMappedPerRank = 8;  // the arena first

enum class Code : uint32_t {
  fine,
  timeout,
  mismatch,   // the peer called something else
  aborted,    // by the host
  bad_place,  // the peer's memory lies outside what is mapped
  busy        // another kernel of this group runs at the same time
};

// What stopped a block, in host memory: one writer (first_to_report()), `complete` last.
struct Report {
  uint32_t code = 0, complete = 0;
  uint32_t segment = 0, peer = 0, number = 0, word = 0;
  uint64_t sequence = 0, expected = 0, seen = 0;
};

// The kernel's only argument.
struct Launch {
  int32_t rank = 0, n = 1;
  uint32_t digest = 0;  // of the call: collective, type, operation, count, root, algorithm
  WindowLayout window;
  uint32_t first[kMaxSegments] = {};  // the first word of each segment
  const Word* words = nullptr;
  const Operand* operands = nullptr;
  // By rank and shared space: the bytes that this rank's words touch there.
  const uint64_t* reach = nullptr;
  const MappedMemory* mapped = nullptr;  // by rank, kMappedPerRank each
  PlaceWord place[kSharedSpaces] = {};   // of this rank
  char* user_input = nullptr;
  char* user_output = nullptr;
  double scale = 1;          // of AVG's own operands
  double factor = 1;         // of PREMUL_SUM, this rank's; told in the hello
  uint8_t tells_factor = 0;  // own operands have their ranks' factors, not `scale`
  uint8_t pad_again[7] = {};
  double divisor = 1;
  const uint32_t* abort = nullptr;  // in host memory
  Report* report = nullptr;         // in host memory, one for each segment
  uint64_t limit_ns = 0;            // of a wait
  char* arena[kMaxRanks] = {};      // as this rank maps them; a window is at the beginning of each
};
static_assert(sizeof(Launch) <= 4096, "a kernel's argument");

}  // namespace ringwood::device
