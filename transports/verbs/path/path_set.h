// The paths of a link over its rails: reads their completions, chooses which carries the next
// write, and closes one that fails at both ends.
//
// When a path fails at either end, both ends close it:
// 1. The queue pair is moved to its error state.
// 2. Once everything that was posted to it has come back, the peer is told over the
//    fallback connection (path_down). From then on neither end can write over it.
// 3. Only then is what was not known to have landed written again over another path: a late write
//    could hit a place that contains newer data.
// 4. Then the ends may open it again (reopener.h).
//
// Thread safety: stop() from any thread, after the gate is closed; all else from the link's user.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "transports/verbs/fallback/link_state.h"
#include "transports/verbs/path/path_slot.h"

namespace ringwood::verbs {

// Events on paths, reported from within a PathSet's calls.
class PathEvents {
 public:
  // A write of the peer has landed.
  virtual void arrived(uint32_t immediate, uint32_t bytes) = 0;
  // A completion on a path that is being proven. False: it is data already.
  virtual bool proving(PathSlot& slot, bool receive, uint64_t number) = 0;
  // The path failed before it carried anything.
  virtual void not_proven(PathSlot& slot, const std::string& why) = 0;
  // The path failed while it carried: what was on its way may not have landed.
  virtual void lost(PathSlot& slot) = 0;
  // The path carried, and both ends have closed it.
  virtual void ended(PathSlot& slot) = 0;

 protected:
  ~PathEvents() = default;
};

inline constexpr const char* kUnreadable = "its completion queue cannot be read";

// What the paths of a link carry.
struct Carried {
  double part = 0;  // of the paths, that can carry
  // Bytes of large writes (PostedWrites::kLargeBytes): on their way, and landed in all.
  uint64_t open = 0, landed = 0;
};

class PathSet final {
 public:
  PathSet(LinkState& link, PathEvents& events);
  PathSet(const PathSet&) = delete;
  PathSet& operator=(const PathSet&) = delete;

  // Makes the queues and the paths, rail by rail. False with `why`.
  bool make(std::vector<RailPair> pairs, std::string& why);
  // Connects a path of `rail` to the peer's, with packets as large as both ports can take.
  bool connect(Path& path, const LinkRail& rail, const PathEnd& theirs, Deadline patience,
               std::string& why) const;
  std::deque<LinkRail>& rails() { return rails_; }
  std::vector<PathSlot>& slots() { return slots_; }
  // The settings of queue pairs; both ends agree on the traffic classes.
  PathSetting& setting() { return setting_; }
  std::string name(const PathSlot& slot) const;  // for the log

  // Reads the completions.
  void read();
  // Closes paths that must be closed, and completes the closing of those that both ends have
  // closed.
  void watch();
  // As in Path, for each; a path whose RDMA device refuses fails.
  void renew_receives(bool all);
  void fail(PathSlot& slot, const std::string& why);
  bool take_path_down(size_t index);  // from the peer; false: there is no such path
  // Both ends have closed the path: what it carried may be written again.
  void end_life(PathSlot& slot);
  // Replaces the queue pair of a path that both ends have closed. False after abort().
  bool replace(PathSlot& slot, std::unique_ptr<Path> fresh);

  // The path for the next write; null if none can take one now.
  PathSlot* choose();
  void took_turn(const PathSlot& slot) { next_ = (slot.index + 1) % slots_.size(); }
  // No path carries anything (as of watch()): the fallback connection has to.
  bool none_left() const { return none_left_; }
  Carried carried() const;

  void close();
  void stop() noexcept;

 private:
  void take(LinkRail& rail, const ibv_wc& completion);
  void destroy(PathSlot& slot);

  LinkState& link_;
  PathEvents& events_;
  PathSetting setting_;
  std::deque<LinkRail> rails_;
  std::vector<PathSlot> slots_;  // destroyed before the queues
  size_t next_ = 0;
  uint64_t landed_ = 0;
  bool none_left_ = false;
};

}  // namespace ringwood::verbs
