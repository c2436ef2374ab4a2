// By which parameters a collective is planned: epochs, each of which lasts from one sequence number
// to the next change of the parameters (machine_model.h), the same numbers on all ranks.
//
//   rank 0                                  every rank
//     prepare{epoch, parameters}       ->     makes ready to plan by them
//                                      <-     ready{epoch, first}: until it is told, it submits no
//                                             collective with the number `first` or a later one
//     commit{epoch, from = max(first)} ->     plans by them from number `from` on
//     or abandon{epoch}                ->     nothing has happened
//
// An epoch is entered by ProgressEngine::admit(), in the thread that submits the first operation of
// it.
//
// No rank can have submitted number `from` before all have heard of it, so no operation that has
// begun is ever planned anew. `first` lies ahead of what a rank has submitted, by what it submits
// in the time of a change, so nobody waits unless an answer is late.
//
// Epochs are numbered from 0, the group's first parameters; numbers of abandoned ones are left out.
// A plan and its fingerprint have the number (the latter its low byte), so that a rank which missed
// a change is found. Guarded by the engine's lock, except open().
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>

namespace ringwood {

class Epochs final {
 public:
  // The collective with this number can be submitted as it was planned, in this epoch.
  bool admit(uint64_t sequence, uint32_t epoch) const {
    return (sequence < stop_) & (epoch == current_);
  }
  // Begins the epoch of this number, which is the next to be submitted.
  uint32_t enter(uint64_t sequence);
  uint32_t current() const { return current_; }

  // Prepares for an epoch. Returns the first number that is not submitted until commit() or
  // abandon(): `ahead` after `next`, the next one to be submitted, and in no earlier epoch than the
  // last that is known.
  uint64_t prepare(uint32_t epoch, uint64_t next, uint64_t ahead);
  // False: it is not the epoch that was prepared last, or too early.
  bool commit(uint32_t epoch, uint64_t from);
  // False: it is not the epoch that is prepared.
  bool abandon(uint32_t epoch);
  // The number may be submitted: nothing is prepared, or it is early enough. Any thread, any time.
  bool open(uint64_t sequence) const { return sequence < delayed_from_.load(); }

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  struct Epoch {
    uint32_t number;
    uint64_t from;
  };
  void set_stop();

  uint64_t stop_ = kNever;  // the least of delayed_from_ and next_'s first
  uint32_t current_ = 0, prepared_ = 0;
  std::atomic<uint64_t> delayed_from_{kNever};
  std::deque<Epoch> next_;  // ascending in both
};

}  // namespace ringwood
