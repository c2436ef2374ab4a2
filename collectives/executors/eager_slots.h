// The eager slots from one rank to all others (transports/eager_channel.h). In every round each
// rank writes one slot to each other rank and reads the slot that each other rank wrote. A slot has
// a head, here a fingerprint, and may carry data.
//
// Each channel of collectives has its own slots. Not thread-safe. The mesh outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/executors/wait_list.h"
#include "collectives/plan/fingerprint.h"
#include "transports/cache_line.h"
#include "transports/eager_channel.h"
#include "transports/mesh.h"

namespace ringwood {

class EagerSlots final {
 public:
  // The slots to and from one other rank.
  struct alignas(kCacheLine) Slot {
    int peer = 0;
    EagerChannel* box = nullptr;
    // The last round of which the peer's head has arrived.
    uint64_t heard = 0;
    int32_t core = -1;  // core on which the peer wrote it
    // Bytes of data in this round: what this rank writes, and what it reads. Set by the caller;
    // they only predict what the processor should prefetch, so a wrong value is harmless.
    size_t out_bytes = 0, in_bytes = 0;
  };

  EagerSlots(const Mesh& mesh, int channel);
  EagerSlots(const EagerSlots&) = delete;
  EagerSlots& operator=(const EagerSlots&) = delete;

  // This rank has slots to every other rank. All ranks of a group get the same result: either they
  // all share one memory, or each lacks slots to some peer. Everything below requires it.
  bool to_all() const { return to_all_; }
  int rank() const { return mesh_.rank; }
  int size() const { return mesh_.size; }
  // Consecutive looks before step() returns to its caller.
  int looks() const { return looks_; }
  std::span<Slot> slots() { return slots_; }
  EagerChannel& at(int peer) const { return *boxes_.data()[peer]; }

  // Begins a round: no peer's head has arrived yet.
  void begin_round() {
    if (shares_cores_) find_core();
    ++round_;
    missing_ = mesh_.size - 1;
  }
  // Looks for the heads that have not arrived yet and calls `check(peer, head)` for each that has.
  // A peer that ended before it wrote its head is an error.
  template <class Check>
  Status look(Check check) {
    int most = looks_;
    for (int n = 0; missing_ > 0; ++n) {
      if (n == most) {
        if (!shares_cores_ || most > looks_ || !all_elsewhere()) return check_open();
        most += kLooksElsewhere;
      }
      for (Slot& slot : slots_) {
        if (slot.heard == round_) continue;
        const std::byte* const head = slot.box->head(slot.in_bytes);
        if (!head) continue;
        slot.heard = round_;
        slot.core = slot.box->core();
        --missing_;
        if (Status s = check(slot.peer, head); !s) return s;
      }
    }
    return {};
  }
  bool all_here() const { return missing_ == 0; }
  // Ends a round: everything written has been read, on this rank and by its peers.
  void end_round() {
    for (const Slot& slot : slots_) slot.box->done(slot.out_bytes);
  }

  void add_waits(WaitList& waits) const;
  // A rank whose head of this round has not arrived; -1: all have.
  int first_missing() const;
  // The error of a peer that ended before it wrote everything. Precondition: at(peer).closed().
  Status gone(int peer) const;

 private:
  // More looks, where ranks share cores, as long as all missing peers run on other cores than this
  // rank: a context switch on their core takes about as long, and a switch on this one would delay
  // both cores. With 4 ranks on 2 cores an 8 B call then takes 2.0 context switches instead of 2.9,
  // and 2.7 us instead of 3.9 (3.2 instead of 4.4 with touched buffers). With 200 looks it takes
  // 2.1 switches; with 1500 no fewer.
  static constexpr int kLooksElsewhere = 600;

  Status check_open() const;
  void find_core();
  bool all_elsewhere() const;

  const Mesh& mesh_;
  const bool shares_cores_;  // the ranks of this host share cores
  const int looks_;
  int32_t core_ = -1;                 // core of this rank, if shares_cores_
  std::vector<EagerChannel*> boxes_;  // by rank; null for this one
  std::vector<Slot> slots_;
  bool to_all_ = false;
  uint64_t round_ = 0;
  int missing_ = 0;  // heads of this round that have not arrived
};

// Whether a group's plans use slots (add_slots() in plan/passes.h): on every channel, or on none.
bool slots_to_all(const Mesh& mesh);

}  // namespace ringwood
