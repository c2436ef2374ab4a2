// One link between two ranks: its paths and their reopening, the data path over them, the
// fallback connection, and the code that drives them in turn. LinkSetup makes it; VerbsLink is its
// interface to the user.
//
// Thread safety: abort() from any thread at any time; all else from one thread at a time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/base/host_watch.h"
#include "transports/verbs/data_path.h"
#include "transports/verbs/path/reopener.h"
#include "transports/verbs/path/write_traffic.h"

namespace ringwood::verbs {

class Connection final : private PathEvents {
 public:
  Connection(const Group& group, int peer, OwnedFd fallback, const Rings& rings, size_t number);
  ~Connection();

  LinkState& link() { return link_; }
  PathSet& paths() { return paths_; }
  DataPath& data() { return data_; }
  WriteTraffic& traffic() { return traffic_; }

  // Ends set-up: from now on failed paths are reopened, and the peer's host is watched. `look`
  // changes before a thread goes to sleep.
  void use(WaitSet& wait_set, std::chrono::milliseconds heartbeat,
           std::shared_ptr<const std::atomic<unsigned>> look);

  // Advances whatever can be advanced. An error is final.
  Status move();
  // Waits, for a bounded time, until what was sent is acknowledged: it would be lost with the queue
  // pairs.
  void drain() noexcept;
  // Stops the queue pairs. An RDMA device that still reads exposed memory does no harm by itself,
  // but the peer must not take for a message what the user writes there from now on.
  void abort() noexcept;

  // False: the frame is invalid.
  bool take(const Frame& frame, std::span<const std::byte> payload);
  // Whether the peer could do its part of set-up, once it has reported; returned once for each
  // part.
  std::optional<bool> take_result() { return std::exchange(result_, std::nullopt); }

 private:
  void arrived(uint32_t immediate, uint32_t bytes) override { data_.arrived(immediate, bytes); }
  bool proving(PathSlot& slot, bool receive, uint64_t number) override {
    return reopener_.proving(slot, receive, number);
  }
  void not_proven(PathSlot& slot, const std::string& why) override {
    reopener_.not_proven(slot, why);
  }
  void lost(PathSlot& slot) override;
  void ended(PathSlot& slot) override { data_.replay(slot); }

  bool time_to_look();
  void read_fallback();
  Status peer_is_gone();
  bool host_is_gone();
  bool all_quiet();

  LinkState link_;
  PathSet paths_;
  DataPath data_;
  Reopener reopener_;
  WriteTraffic traffic_;
  HostWatch host_;                                     // on the fallback connection
  std::shared_ptr<const std::atomic<unsigned>> look_;  // changes before every sleep
  unsigned looked_ = 0, polls_ = 0;
  bool armed_ = false;  // the last look: the thread may sleep before the next one
  bool in_use_ = false;
  std::optional<bool> result_;
};

}  // namespace ringwood::verbs
