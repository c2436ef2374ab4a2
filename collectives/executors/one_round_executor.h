// Carries out plans of one round over links: all preambles and data leave at once, and the steps
// then run in their order, reading messages in place as they arrive.
//
// It needs no separate agreement: every rank's preamble, with its data in it or behind it, reaches
// every other rank, and no buffer is written before all preambles have arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/executors/additions.h"
#include "collectives/executors/executor.h"
#include "collectives/executors/peer_link.h"

namespace ringwood {

class OneRoundExecutor final : public Executor {
 public:
  // `channel` is a channel of the mesh, which outlives the executor.
  OneRoundExecutor(Mesh& mesh, int channel) : mesh_(mesh), channel_(channel) {}

  void start(const PlanExecution& execution) override;
  Status step(Iteration& iteration) override;
  bool agreed() const override { return agreed_; }
  void release() override { delayed_ = false; }
  void add_waits(WaitList& waits) const override;
  int waits_for() const override;

 private:
  struct Talk : PeerLink {
    using PeerLink::PeerLink;
    Preamble mine, theirs;  // not moved while they are posted
    bool heard = false;     // theirs has arrived and agrees
    bool taken = false;     // its message is consumed
    size_t offset = 0;      // bytes consumed: of the preamble, then of the message
  };

  Status post_preambles(bool& progressed);
  Status post_data();
  Status hear_all(bool& progressed);
  Status hear(Talk& talk, bool& progressed);
  Status run(Iteration& iteration);
  Status push();
  Status receive(size_t index, bool& progressed);
  Status receive_carried(Talk& talk, size_t index);
  void take(Talk& talk, size_t index, std::span<const std::byte> piece);
  void note_sent();
  Talk& talk_with(int peer);
  bool any_sending() const;
  Status poll_open(bool (PeerLink::*open)() const, bool& none);

  Mesh& mesh_;
  const int channel_;
  const PlanExecution* execution_ = nullptr;
  std::vector<Talk> talks_;
  Additions additions_;
  size_t next_ = 0;      // step of the plan
  bool begun_ = false;   // the preambles are posted
  bool folded_ = false;  // the operand of the next step was already added as it arrived
  bool agreed_ = false, delayed_ = false;
};

}  // namespace ringwood
