// The eager slots of one rank to all others (transports/eager_channel.h): in every round each
// rank writes to each other, and takes what each other wrote. A round's slot has a head, here a
// fingerprint, and may have data.
//
// Each channel of collectives has its own. One thread at a time. The mesh outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/executors/wait_list.h"
#include "collectives/plan/fingerprint.h"
#include "transports/eager_channel.h"
#include "transports/mesh.h"

namespace ringwood {

class EagerSlots final {
 public:
  // To and from one other rank.
  struct Slot {
    int peer = 0;
    EagerChannel* box = nullptr;
    // The last round of which the peer's head is here.
    uint64_t heard = 0;
    int32_t core = -1;  // on which the peer wrote it
    // Bytes of this round's data: what this rank writes, and what it takes. Its user's to set; only
    // guesses at what the processor will need, where they are wrong.
    size_t out_bytes = 0, in_bytes = 0;
  };

  EagerSlots(const Mesh& mesh, int channel);
  EagerSlots(const EagerSlots&) = delete;
  EagerSlots& operator=(const EagerSlots&) = delete;

  // This rank has them to every other. All ranks of a group come to the same answer: they all share
  // one memory, or each lacks somebody. All below requires it.
  bool to_all() const { return to_all_; }
  int rank() const { return mesh_.rank; }
  int size() const { return mesh_.size; }
  // Looks in a row before the caller is asked again.
  int looks() const { return looks_; }
  std::span<Slot> slots() { return slots_; }
  EagerChannel& at(int peer) const { return *boxes_.data()[peer]; }

  // A round begins: nobody's head is here.
  void begin_round() {
    if (shares_cores_) find_core();
    ++round_;
    missing_ = mesh_.size - 1;
  }
  // Looks for the heads that are not here yet: `check(peer, head)` is asked of each that comes. A
  // peer that closed its end before is an error.
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
  // All that was written is taken, here and there.
  void end_round() {
    for (const Slot& slot : slots_) slot.box->done(slot.out_bytes);
  }

  void add_waits(WaitList& waits) const;
  // The error of a peer that closed its end before it wrote all.
  Status gone(int peer) const;

 private:
  // More looks, where ranks share cores, while all who are missing are on other cores than this
  // rank: whoever switches to them there takes about as long, and a switch here would delay both
  // cores. Among 4 ranks on 2 cores a call of 8 B then takes 2.0 switches instead of 2.9, 2.7 us
  // instead of 3.9 (touched 3.2 instead of 4.4); 200 looks 2.1 switches, 1500 looks no less.
  static constexpr int kLooksElsewhere = 600;

  Status check_open() const;
  void find_core();
  bool all_elsewhere() const;

  const Mesh& mesh_;
  const bool shares_cores_;  // the ranks of this host do
  const int looks_;
  int32_t core_ = -1;                 // of this rank, with shares_cores_
  std::vector<EagerChannel*> boxes_;  // by rank; null for this one
  std::vector<Slot> slots_;
  bool to_all_ = false;
  uint64_t round_ = 0;
  int missing_ = 0;  // heads of this round
};

// Whether a group's plans go by slots (add_slots() in plan/passes.h): on every channel, or on none.
bool slots_to_all(const Mesh& mesh);

}  // namespace ringwood
