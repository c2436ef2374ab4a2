// Everything between two ranks of one link: its paths with their reopening, the data path over
// them, and the wire; and what moves them, in turns. LinkSetup makes it, VerbsLink is what its user
// sees of it.
//
// Thread safety: abort() from any thread at any moment, the rest from one at a time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/base/host_watch.h"
#include "transports/verbs/data_path.h"
#include "transports/verbs/path/reopener.h"

namespace ringwood::verbs {

class Connection final : private PathEvents {
 public:
  Connection(const Group& group, int peer, OwnedFd wire, const Rings& rings, size_t number);
  ~Connection();

  LinkState& link() { return link_; }
  PathSet& paths() { return paths_; }
  DataPath& data() { return data_; }

  // The end of set-up: from now on failed paths are opened again, and the peer's host is watched.
  // When `look` changes, somebody is going to sleep.
  void use(WaitSet& wait_set, std::chrono::milliseconds heartbeat,
           std::shared_ptr<const std::atomic<unsigned>> look);

  // Moves what can be moved. An error is final.
  Status move();
  // The error, if there is one; else what is wrong with a call for `bytes`.
  Status why(size_t bytes) const;
  // Until what was sent is acknowledged, or a bounded time: it would be lost with the queue pairs.
  void drain() noexcept;
  // A device may go on reading what was lent, which does no harm by itself, but the peer must not
  // take for a message what its user writes there from now on: so the queue pairs are stopped.
  void abort() noexcept;

  // False: the peer cannot mean it.
  bool take(const Frame& frame, std::span<const std::byte> payload);
  // Whether the peer could do its part of set-up, once it has told; told once for each part.
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
  void read_wire();
  Status peer_is_gone();
  bool host_is_gone();
  bool all_quiet();

  LinkState link_;
  PathSet paths_;
  DataPath data_;
  Reopener reopener_;
  HostWatch host_;                                     // of the wire
  std::shared_ptr<const std::atomic<unsigned>> look_;  // changes before every sleep
  unsigned looked_ = 0, polls_ = 0;
  bool in_use_ = false;
  std::optional<bool> result_;
};

}  // namespace ringwood::verbs
