// Sets up a link: makes queue pairs, exchanges their addresses, and probes every path in both
// directions, with packets of full size, because paths that lose only those are common.
//
// The calls are made in the order below. connect() waits for the lower rank's greet(), or the
// higher rank's connect(). Both ends exchange their result after connect() and after end_probe(): a
// message that is sent before the peer's queue pair is ready is repeated only after a timeout of
// seconds. After a failure, the remaining calls only tell the peer.
//
// Not thread safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/verbs/connection.h"
#include "transports/verbs/hello.h"

namespace ringwood::verbs {

class LinkSetup final {
 public:
  LinkSetup(const Group& group, int peer, OwnedFd fallback, std::vector<RailPair> rails,
            const Rings& rings, size_t number);

  void greet();
  // `patience`: for addresses that the network does not know at once.
  void connect(Deadline deadline, Deadline patience);
  void begin_probe();
  bool probe_ended();
  void end_probe();
  void tell_result();
  void take_result(Deadline deadline);
  // Why there will be no link; empty as long as there may be one.
  const std::string& failure() const { return failure_; }

  // Once, after the last result, if nothing failed. `look` changes before a thread goes to sleep in
  // the wait set.
  std::unique_ptr<Link> finish(WaitSet& wait_set,
                               std::shared_ptr<const std::atomic<unsigned>> look);

 private:
  void tell_ends();
  void agree(const Hello& theirs);
  void connect_paths(const Hello& theirs, Deadline patience);

  const Options& options_;
  const Ring ring_;  // where the peer writes
  std::unique_ptr<Connection> connection_;
  LinkState& link_;
  PathSet& paths_;
  std::string failure_;
  std::vector<std::byte> probe_out_, probe_in_;
  size_t probes_ = 0;  // posted
};

}  // namespace ringwood::verbs
