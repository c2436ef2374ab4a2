// The paths of a link over its rails: what completes on them, which of them carries the next write,
// and how one that fails is closed at both ends.
//
// When a path fails at either end, both close it: the queue pair is moved to its error state, and
// once everything that was posted to it has come back, the peer is told over the wire (path_down).
// From then on neither can write over it, and only then is what was not known to have landed
// written again over another: a late write could hit a place that holds newer data. Then they may
// open it again (reopener.h).
//
// Thread safety: stop() from any thread, after the gate is closed; the rest from the link's user.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "transports/verbs/path/path_slot.h"
#include "transports/verbs/wire/link_state.h"

namespace ringwood::verbs {

// What happens to paths, told from within a PathSet's calls.
class PathEvents {
 public:
  // A write of the peer has landed.
  virtual void arrived(uint32_t immediate, uint32_t bytes) = 0;
  // Something completed on a path that is being proven. False: it is data already.
  virtual bool proving(PathSlot& slot, bool receive, uint64_t number) = 0;
  // It failed before it carried anything.
  virtual void not_proven(PathSlot& slot, const std::string& why) = 0;
  // It failed while it carried: what was on its way may not have landed.
  virtual void lost(PathSlot& slot) = 0;
  // It carried, and both ends have closed it.
  virtual void ended(PathSlot& slot) = 0;

 protected:
  ~PathEvents() = default;
};

inline constexpr const char* kUnreadable = "its completion queue cannot be read";

class PathSet final {
 public:
  PathSet(LinkState& link, PathEvents& events);
  PathSet(const PathSet&) = delete;
  PathSet& operator=(const PathSet&) = delete;

  // Makes the queues and the paths, rail by rail. False with `why`.
  bool make(std::vector<RailPair> pairs, std::string& why);
  // Leads a path of `rail` to the peer's; the packets are as large as both ports take.
  bool connect(Path& path, const LinkRail& rail, const PathEnd& theirs, Deadline patience,
               std::string& why) const;
  std::deque<LinkRail>& rails() { return rails_; }
  std::vector<PathSlot>& slots() { return slots_; }
  // How queue pairs are set; the classes of traffic are what both ends agree on.
  PathSetting& setting() { return setting_; }
  std::string name(const PathSlot& slot) const;  // for the log

  // Takes what has completed.
  void read();
  // Closes what must be closed, and goes on where both sides have.
  void watch();
  // As of each path; one that refuses fails.
  void renew_receives(bool all);
  void fail(PathSlot& slot, const std::string& why);
  bool take_path_down(size_t index);  // from the peer; false: there is no such path
  // Both ends have closed it: what it carried may be written again.
  void end_life(PathSlot& slot);
  // Puts a queue pair in the place of one that both ends have closed. False after abort().
  bool replace(PathSlot& slot, std::unique_ptr<Path> fresh);

  // For the next write; null when none can take one now.
  PathSlot* choose();
  void took_turn(const PathSlot& slot) { next_ = (slot.index + 1) % slots_.size(); }
  // No path carries anything (as of watch()): the wire has to.
  bool none_left() const { return none_left_; }

  void close();
  void stop() noexcept;

 private:
  void take(LinkRail& rail, const ibv_wc& completion);
  void destroy(PathSlot& slot);

  LinkState& link_;
  PathEvents& events_;
  PathSetting setting_;
  std::deque<LinkRail> rails_;
  std::vector<PathSlot> slots_;  // ends before the queues
  size_t next_ = 0;
  bool none_left_ = false;
};

}  // namespace ringwood::verbs
