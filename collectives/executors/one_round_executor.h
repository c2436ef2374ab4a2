// Carries out plans of one round over links: everybody's preamble and data leave at once, and the
// steps then run in their order, reading what arrives where the links show it.
//
// It needs no agreement of its own: every rank's preamble, with its data in it or behind it, comes
// to every other rank, and nothing is written before all have been heard.
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
  // Over this channel of the mesh, which outlives it.
  OneRoundExecutor(Mesh& mesh, int channel) : mesh_(mesh), channel_(channel) {}

  void start(const PlanExecution& execution) override;
  Status step(Pass& pass) override;
  bool agreed() const override { return agreed_; }
  void release() override { held_ = false; }
  void add_waits(WaitList& waits) const override;

 private:
  struct Talk : PeerLink {
    using PeerLink::PeerLink;
    Preamble mine, theirs;  // in place while they are posted
    bool heard = false;     // theirs is here and agrees
    bool taken = false;     // its message is
    size_t offset = 0;      // bytes taken: of theirs, then of the message
  };

  Status post_preambles(bool& progressed);
  Status post_data();
  Status hear_all(bool& progressed);
  Status hear(Talk& talk, bool& progressed);
  Status run(Pass& pass);
  Status push();
  Status receive(size_t index, bool& progressed);
  Status receive_carried(Talk& talk, size_t index);
  void take(Talk& talk, size_t index, std::span<const std::byte> piece);
  Talk& talk_with(int peer);
  bool any_sending() const;
  Status poll_open(bool (PeerLink::*open)() const, bool& none);

  Mesh& mesh_;
  const int channel_;
  const PlanExecution* execution_ = nullptr;
  std::vector<Talk> talks_;
  Additions additions_;
  size_t next_ = 0;      // step of the plan
  bool begun_ = false;   // the preambles are on their way
  bool folded_ = false;  // what the next step would add has been added as it was received
  bool agreed_ = false, held_ = false;
};

}  // namespace ringwood
