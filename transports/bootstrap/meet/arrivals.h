// The processes that have come to a store to make a group: a list to which each adds itself, so
// that none takes another's place in it, of whatever rank and of whatever job it says it is.
//
//   a process                          rank 0
//     n = (arrivals += 1)
//     hello/n = its hello         ->
//                                 <-   welcome/n = the reply
//                                      served = the last n that this group has looked at
//
// Processes that were killed stay in the list until a rank 0 has served it, and their numbers are
// not used again: what they have left is never taken for another's. In the end rank 0 removes the
// list if nobody has come since. Who comes at this very moment finds that it is not in the list,
// and adds itself again.
//
// Used by one thread. All methods throw Error, as the store does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "transports/base/clock.h"
#include "transports/bootstrap/meet/bootstrap_messages.h"
#include "transports/bootstrap/store.h"

namespace ringwood {

class Arrivals final {
 public:
  using Numbered = std::map<int64_t, Hello>;

  Arrivals(std::shared_ptr<Store> store, Deadline deadline)
      : store_(std::move(store)), deadline_(deadline) {}

  // Returns this process's number.
  int64_t add(const Hello& hello);
  static std::string reply_key(int64_t number);
  // Those that no rank 0 has served, alive or not.
  Numbered unserved();
  // No other is unserved that came before.
  bool is_first(int64_t number);
  void reply(int64_t number, const Welcome& welcome);
  bool has_reply(int64_t number) { return store_->has(reply_key(number), deadline_); }
  // The list was removed when it came.
  bool is_lost(int64_t number);
  // Of this process, which has read the reply or does not wait for one any more.
  void forget(int64_t number);

  // ---- rank 0 ----------------------------------------------------------------------------------

  // Those that this has not returned before. A hello of another release is an empty one.
  Numbered fresh();
  // All are looked at that are to be. A reply stays until who was refused has read it.
  void finish(const std::set<int64_t>& welcomed);
  // The group has formed.
  void remove();

 private:
  int64_t served();
  bool read(int64_t number, Hello& hello);

  const std::shared_ptr<Store> store_;
  const Deadline deadline_;
  int64_t looked_at_ = -1;     // rank 0: up to which number; -1: not begun
  std::set<int64_t> awaited_;  // of these, which have a number but had not yet said hello
  std::set<int64_t> refused_;  // whose replies are left
};

}  // namespace ringwood
