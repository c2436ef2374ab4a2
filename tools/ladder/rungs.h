// What a ladder measures (ladder.h), between two ranks: each rung does the same exchange, with one
// layer more than the one below it.
//
// All functions are collective over the two ranks, which call them in the same order. Every wait
// has the deadline of the rung. Throws Error; a rung that cannot be made says why instead.
#pragma once

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "transports/base/options.h"
#include "transports/bootstrap/store.h"

namespace ringwood::tools {

class Rung {
 public:
  virtual ~Rung() = default;
  // Both ranks send each other so many bytes at the same time, `times` times one after the other.
  // Returns the seconds of one exchange.
  virtual double exchange(size_t bytes, int times) = 0;
  // Where other programs carry it out, they may end before this one: why, after an exchange that
  // returned 0. The ranks may differ.
  virtual bool by_programs() const { return false; }
  virtual std::string failure() const { return ""; }
  // Every exchange starts programs anew: fewer of them, and none to warm up.
  virtual bool starts_anew() const { return false; }
};

struct MadeRung {
  std::unique_ptr<Rung> rung;  // null: see why_not, equal on both ranks
  std::string what, why_not;
};

// The two ranks, which have a group of their own.
struct LadderPair {
  Communicator& group;
  const Options& options;
  std::shared_ptr<Store> store;  // private to the two
  std::string address;           // of this rank, as its links use
};

// Plain sends and receives on one TCP connection.
MadeRung make_socket_rung(const LadderPair& pair);
// Bytes/s of all RDMA ports that a link of verbs would use, as the kernel has it; 0: unknown.
double rate_of_rdma_ports(const Options& options);
// RDMA writes of perftest between the first two ports that verbs would pair, where it is installed.
MadeRung make_verbs_rung(const LadderPair& pair);
// A link of the transport that the group uses between the two, without a group around it.
MadeRung make_link_rung(const LadderPair& pair);
// An all_gather of the group, from C++.
MadeRung make_collective_rung(const LadderPair& pair);
// The same from Python, by torch.distributed, in a process beside each rank.
MadeRung make_torch_rung(const LadderPair& pair);

}  // namespace ringwood::tools
