// PTX text as something that can be executed fast: everything is decoded once.
//
// A function is a list of instructions over one array of 64-bit slots: its registers, and behind
// them the constants and symbols that it uses, so that every source operand is an index. A slot
// holds its register's bits, with zeros above. Labels are indices; the parameters and results of
// calls are bytes in the frame ("slots" of a call have names in PTX, here they have offsets).
//
// What is not known, in an opcode, a modifier or a declaration, throws Fault::unknown with the line
// and the text: nothing is skipped silently but cache hints, debug lines and performance
// directives. A Module is constant once it is made, and may be used by several threads.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ringwood::ptx {

// Why an execution ended. The text says where: line, instruction, thread, memory.
class Fault : public std::runtime_error {
 public:
  enum Kind {
    unknown,        // an instruction or declaration that is not supported
    race,           // unordered accesses, at least one of them a write and one of them weak
    scope,          // unordered strong accesses of which one's scope leaves out the other's thread
    outside,        // an address in no range, or in one of another state space
    uninitialised,  // memory that nobody has written
    misaligned,
    hang,  // too many instructions, or nobody can go on
    trap,
    wrong  // what the tests find wrong themselves
  };
  Fault(Kind why, const std::string& text) : std::runtime_error(text), kind(why) {}
  Kind kind;
};

// Ordered by size, signless first.
enum class Type : uint8_t {
  none,
  pred,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  f16x2,
  bf16x2,
  b64,
  u64,
  s64,
  f64
};
int bits_of(Type type);
bool is_signed(Type type);
bool is_float(Type type);
// none: not a type.
Type type_named(std::string_view name);

enum class Space : uint8_t { generic, global, shared, local, param, constant };
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel, sc };
enum class Scope : uint8_t { cta, gpu, sys };

enum class Opcode : uint8_t {
  compute,     // registers only: `compute` does it
  load,        // dst[0..count) <- [src[0] + offset]
  store,       // [src[0] + offset] <- src[1..count]
  load_slot,   // dst[0..count) <- the frame's bytes at offset
  store_slot,  // the frame's bytes at offset <- src[1..count]
  atomic,      // dst[0] <- [src[0] + offset], which becomes rmw(src[1], src[2])
  fence,
  barrier,       // src[0]: number, src[1]: threads (0: all that are left); dst[0] <- vote(src[2])
  warp_barrier,  // src[0]: mask
  branch,        // to code[offset]
  branch_table,  // to tables[offset][src[0]]
  call,          // calls[offset]
  ret,
  exit,
  trap,
  clock,    // dst[0] <- instructions executed
  time,     // dst[0] <- nanoseconds
  isspace,  // dst[0] <- whether src[0] lies in `space`
  nothing
};
enum class Rmw : uint8_t { add, bit_and, bit_or, bit_xor, exchange, cas, inc, dec, min, max };
enum class Rounding : uint8_t { none, rn, rz, rm, rp, rni, rzi, rmi, rpi };
enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
// What a barrier tells its threads of their predicates.
enum class Vote : uint8_t { none, count, all, any };
enum class Combine : uint8_t { none, bit_and, bit_or, bit_xor };

struct Instruction;
using Compute = void (*)(uint64_t* slots, const Instruction& x);

inline constexpr uint32_t kNoSlot = std::numeric_limits<uint32_t>::max();

struct Instruction {
  Opcode opcode = Opcode::nothing;
  bool negated = false;  // the guard
  uint8_t count = 1;     // elements of a vector
  Type type = Type::none;
  Compute compute = nullptr;
  uint32_t guard = kNoSlot;
  uint32_t dst[4] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  uint32_t src[5] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  int64_t offset = 0;
  Type from = Type::none;  // of the source, where it is another one
  uint8_t dst_bits = 0;    // of the register that is written
  Space space = Space::generic;
  Order order = Order::weak;
  Scope scope = Scope::sys;
  Rmw rmw = Rmw::add;
  Rounding rounding = Rounding::none;
  Compare compare = Compare::eq;
  Combine combine = Combine::none;
  Vote vote = Vote::none;
  bool negated_source = false;                       // the predicate of a combination or vote
  bool saturate = false, nan = false, flag = false;  // .sat; .NaN; .cc, .clamp, .shiftamt
  uint8_t mode = 0;                                  // of prmt
  int line = 0;
};

// A slot that gets its value when the function is entered.
struct Symbol {
  enum Kind : uint8_t { shared, local, param, variable, tid, ntid, ctaid, nctaid, laneid, warpid };
  Kind kind = shared;
  uint32_t slot = 0;
  uint64_t offset = 0;  // variable: its index
};
// Bytes of a frame that are a parameter or a result.
struct FrameBytes {
  uint32_t at = 0, bytes = 0;
};
struct Call {
  uint32_t function = 0;
  std::vector<uint32_t> arguments;  // where they lie in the caller's frame
  uint32_t result = kNoSlot;
};
struct Function {
  std::string name;
  bool entry = false, defined = false;
  std::vector<uint64_t> initial;  // all slots; registers begin with rubbish, as on a GPU
  std::vector<Symbol> symbols;
  std::vector<FrameBytes> params;  // of an entry: in its block's parameters
  FrameBytes result;
  uint32_t param_bytes = 0;  // of an entry
  uint32_t frame_bytes = 0;
  uint32_t local_bytes = 0;
  std::vector<Instruction> code;
  std::vector<std::string> texts;  // of the instructions
  std::vector<Call> calls;
  std::vector<std::vector<uint32_t>> tables;
};

// A variable of the module in global or constant memory.
struct Variable {
  std::string name;
  Space space = Space::global;
  std::vector<uint8_t> initial;
};

class Module {
 public:
  // Throws Fault::unknown.
  explicit Module(std::string_view text);

  // Of a kernel or function with a body; throws std::out_of_range.
  const Function& function(const std::string& name) const;
  const std::vector<Function>& functions() const { return functions_; }
  const std::vector<Variable>& variables() const { return variables_; }
  // Of a block, without what a launch adds behind it.
  uint32_t shared_bytes() const { return shared_bytes_; }
  std::vector<std::string> kernels() const;

 private:
  friend class ModuleParser;
  std::vector<Function> functions_;
  std::unordered_map<std::string, uint32_t> index_;
  std::vector<Variable> variables_;
  uint32_t shared_bytes_ = 0;
};

// The text of a file; throws std::runtime_error.
std::string read_ptx(const std::string& path);

}  // namespace ringwood::ptx
