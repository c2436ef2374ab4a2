// The executor: one loop that carries out a plan over links. It knows nothing of algorithms and
// never waits.
//
//   agree       fingerprints go round (fingerprint.h); sends may go out, nothing of the user's is
//   written run         post what is ready, poll links, reduce what has arrived, run local steps
//   done        every step and every fingerprint is finished: the buffers are the caller's again
//
// A plan of one round needs no agreement of its own: every rank's opening, with its data in it or
// behind it, comes to every other rank, and nothing is written before all have been heard. Among
// ranks that share memory every operation opens so, by letter (transports/mailbox.h).
//
// Messages that travel in a wire format (wire.h) are encoded into the scratch when they are posted,
// and decoded out of what the link shows.
//
// One execution at a time; one thread at a time. The caller owns the loop around step(), its
// deadline, its sleeping and the abort. No allocation once the scratch has grown to the largest
// plan in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/fingerprint.h"
#include "collectives/plan.h"
#include "transports/arena.h"
#include "transports/clock.h"
#include "transports/mailbox.h"
#include "transports/mesh.h"

namespace ringwood {

class Executor final {
 public:
  explicit Executor(Mesh& mesh);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  struct Request {
    const Plan* plan = nullptr;
    Fingerprint fingerprint;
    std::span<void* const> buffers;  // as the plan numbers them; null for buffers this rank has not
    // Sizes of pairs: elements to each rank, and expected from each; else empty.
    std::span<const uint64_t> send_counts, recv_counts;
    bool hold_sends = false;  // the caller will change the buffers after the agreement
    // PREMUL_SUM of a type whose operands are scaled as they are added: by rank.
    const std::vector<double>* factors = nullptr;
  };
  // Precondition: idle. The request's spans and plan must live until idle() again.
  void start(const Request& request);
  bool idle() const { return request_.plan == nullptr; }
  bool agreed() const { return agreed_; }
  // With hold_sends: the caller has done its part, the run may begin.
  void release() { held_ = false; }
  // One pass. Sets `progressed` when anything moved. After it, idle() tells whether the plan is
  // finished.
  Status step(bool& progressed);
  // Forgets a plan that failed. The links must have been aborted.
  void drop();
  // Whether peers read this rank's scratch where it lies.
  bool reads_in_place() const { return arena_ != nullptr; }
  // Reductions that were carried out in one pass (fusion.h).
  uint64_t fused() const { return fused_; }
  // For errors: "rank 3 (step 7: recv_reduce of 65536 bytes), rank 5 (its fingerprint)", and the
  // peers as a list.
  std::string waiting_for(std::vector<int>* peers = nullptr) const;

 private:
  // One peer during one execution.
  struct Run {
    const PeerQueue* queue = nullptr;
    Link* link = nullptr;
    Completions base;                                          // totals when the execution began
    int greetings_posted = 0, hearings_posted = 0, heard = 0;  // fingerprints
    size_t sends_posted = 0, sends_done = 0;
    size_t receives_posted = 0, receives_done = 0;
    size_t shown = 0;  // next receive whose bytes are shown, not stored
    size_t shown_offset = 0;
    Opening mine, theirs[2];  // at most two of a peer (plan_agreement)
  };

  // One round (executor_one_round.cc).
  Status step_one_round(bool& progressed);
  Status open(Run& run);
  Status hear_openings(bool& all, bool& progressed);
  Status send_payloads();
  Status receive(const BoundStep& step, int32_t index, bool& finished, bool& progressed);
  Run& run_of(int peer);
  Status settle(bool (Executor::*open)(const Run&) const, bool& none);
  Status push();

  // By letter (executor_letters.cc).
  void find_mailboxes();
  bool by_letter() const { return !boxes_.empty(); }
  int greets(const Run& run) const { return by_letter() ? 0 : run.queue->greets; }
  const BoundStep* enclosed(const std::vector<int32_t>& steps, int peer) const;
  void write_letters();
  void write_late();
  Status look_for_letters();
  Status hear_letters(bool& progressed);
  void write_news();
  bool take_letter(const BoundStep& step);
  Status gone(int peer) const;
  void put_letters_away();
  Status step_letters(bool& progressed);

  Status agree(bool& progressed);
  Status exchange(const Plan::Exchange& exchange, bool& progressed);
  Status hear(Run& run);
  Fingerprint said_to(int peer) const;
  Fingerprint expected_from(int peer, const Fingerprint& theirs) const;
  Status agrees(const Fingerprint& theirs, int peer) const;
  Status post_sends(Run& run, bool& progressed);
  Status post_receives(Run& run, bool& progressed);
  Status poll(Run& run, bool& progressed);
  bool sending(const Run& run) const;
  bool outstanding(const Run& run) const;
  bool show(Run& run);
  bool postable(int32_t receive) const;
  // In one pass (executor_fusion.cc).
  enum class Fused { waiting, done, impossible };
  Fused fuse(const Fusion& fusion);
  bool ready(const Fusion& fusion, size_t peer, Fused& verdict);
  bool carry_out(const Fusion& fusion);
  void reduce_piece(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  // AVG and PREMUL_SUM (executor_sums.cc).
  double scale_of(int32_t own) const;
  void add_scaled(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  void add_fused(const Fusion& fusion, size_t count);
  // Wire formats (executor_wire.cc).
  Status post_encoded(Run& run, int32_t index);
  void decode_piece(const Run& run, const BoundStep& step, std::span<const std::byte> piece);
  void decode_blocks(const BoundStep& step, size_t first, const std::byte* from, size_t count);
  void add_decoded(const BoundStep& step, size_t first, const std::byte* from, size_t count);
  void run_rounding(bool& progressed);
  void make_ready(int32_t step);
  void run_local(const BoundStep& step);
  void run_ready(bool& progressed);
  void complete(int32_t step);
  std::byte* at(Place place);
  Error at_step(Error error, int32_t step) const;
  void grow(size_t scratch_bytes, size_t wide_bytes);
  void give_scratch_back() noexcept;

  Mesh& mesh_;
  Request request_;
  std::vector<Run> runs_;
  std::vector<int32_t> pending_;    // by step: predecessors not finished
  std::vector<int32_t> ready_;      // local steps that can run, but for roundings
  std::vector<int32_t> roundings_;  // those that can, or have: in order
  size_t rounded_ = 0;              // of them
  size_t left_ = 0;                 // steps not finished
  size_t exchanged_ = 0;            // of the plan's agreement
  size_t cursor_ = 0;               // one round: the next step
  bool folded_ = false;             // one round: what is received is added at once
  std::vector<char> unfused_;       // by fusion: its steps are carried out one by one
  std::vector<void*> places_;       // of the fusion at hand, ours first
  std::vector<const void*> operands_;
  std::vector<double> scales_;
  Clock::time_point held_back_{};  // since when some peers' operands wait for the others'
  bool agreed_ = false, held_ = false;
  std::vector<Mailbox*> boxes_;  // by rank, null for this one; empty unless all others have one
  std::vector<char> heard_;      // by rank: its letter's head is here and agrees
  size_t unheard_ = 0;
  bool pairs_differ_ = false;  // of all_to_all: somebody's sizes are not all the same
  bool news_ = false;          // the second letter, that all pairs agree, is on its way
  int looks_ = 1;
  uint64_t fused_ = 0;
  bool late_ = false;             // the letters' data is to follow their heads
  Arena* arena_ = nullptr;        // that has the scratch; null: pages of its own
  std::byte* scratch_ = nullptr;  // page aligned
  size_t scratch_bytes_ = 0;
  std::byte* wide_ = nullptr;
  size_t wide_bytes_ = 0;
};

}  // namespace ringwood
