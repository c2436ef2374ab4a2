// The memory of GPUs and hosts, under a weak model: what is stronger and weaker than PTX's.
//
// Source: PTX ISA 9.0, "Memory Consistency Model"; Lustig, Sahasrabuddhe, Giroux: A Formal Analysis
// of the NVIDIA PTX Memory Consistency Model (2019). Where an execution here differs:
// - Stronger: a load returns what a store has written that was executed before it (no load
//   buffering, so nothing out of thin air), and stores to one word are ordered as they are executed
//   (no writes that overtake each other in one word's coherence order).
// - Weaker: a relaxed store after a release to the same word publishes nothing; only fences,
//   releases themselves and read-modify-writes of what was released do.
// - All else of the model is there: stale reads, stores and loads that pass each other, threads
//   that see independent stores in different orders, fences, scopes, barriers, and vectors as
//   elements without an order.
// What the model calls a data race is an error: unordered accesses of which one writes, unless both
// are strong, to the same bytes, and in scopes that contain each other's threads.
//
// Addresses: memory that the tests map has its own; shared memory of blocks lies below 2^32, and
// local memory and parameters above it, so that an address says what it is. Accesses must be
// aligned, lie in one range, and in the state space that the instruction names. Memory that kernels
// have to write first (shared, local) must not be read before. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/ptx/clock.h"
#include "tests/ptx/shadow.h"
#include "tests/ptx/words.h"

namespace ringwood::ptx {

// A thread's own memory: a stack of frames.
struct LocalMemory {
  uint64_t base = 0;
  std::vector<uint8_t> bytes, written;
  void resize(size_t size) { bytes.resize(size), written.resize(size); }
};

enum class Access : uint8_t { read, write };

class Memory {
 public:
  explicit Memory(Random& random) : random_(random) {}

  // Memory of the tests, which stays theirs. Throws std::invalid_argument where it overlaps.
  void map(const std::string& name, void* base, size_t bytes);
  // Of a block or a module, zeroed: its address. Shared and global memory is named in errors.
  uint64_t add(const std::string& name, Space space, std::span<const uint8_t> initial);
  void remove(uint64_t address);
  // The base of a thread's own memory.
  uint64_t add_local();

  // What an instruction does. Conflict and Fault have no place in the text: the machine adds it.
  void load(Agent& agent, LocalMemory& own, const Instruction& x, uint64_t* slots);
  void store(Agent& agent, LocalMemory& own, const Instruction& x, uint64_t* slots);
  void atomic(Agent& agent, const Instruction& x, uint64_t* slots);
  void fence(Agent& agent, Order order, Scope scope) { fences_.fence(agent, order, scope); }
  bool is_in(uint64_t address, Space space) const;

  // A weak access of the host's; before a write is carried out. Throws Conflict.
  void touch(const Agent& agent, const void* base, size_t bytes, Access access);

  // "window of rank 1 + 24".
  std::string name_of(uint64_t address) const;
  uint64_t checked() const;
  uint64_t stale() const;

 private:
  struct Region {
    std::string name;
    uint64_t base = 0;
    uint64_t bytes = 0;
    char* data = nullptr;
    Space space = Space::global;
    std::vector<char> owned = {};
    std::unique_ptr<Shadow> shadow = nullptr;  // null: nobody writes
    std::unique_ptr<Words> words = nullptr;
  };
  Region* find(uint64_t address) const;
  Region& checked_region(const Instruction& x, uint64_t address, uint64_t bytes, bool writes) const;
  void load_local(LocalMemory& own, const Instruction& x, uint64_t address, uint64_t* slots);
  void store_local(LocalMemory& own, const Instruction& x, uint64_t address, uint64_t* slots);
  void access_weak(const Agent& agent, Region& region, const Touch& touch);
  void make_shadow(Region& region, bool written);

  Random& random_;
  std::map<uint64_t, std::unique_ptr<Region>> regions_;  // by base
  mutable Region* last_ = nullptr;
  std::vector<std::unique_ptr<Region>> shared_;  // by window
  uint64_t next_local_ = 0, next_param_ = 0;
  std::vector<uint32_t> met_;         // words of the access at hand
  uint64_t checked_ = 0, stale_ = 0;  // of regions that are gone
  Fences fences_;
};

}  // namespace ringwood::ptx
