// One queue pair of a link through its life, with an account of what is in its queues.
//
//   made --connect--> proving --use--> alive --close--> closing --drain, destroy--> closed
//
// Closing lasts until every posted receive has come back, which shows that the peer can write no
// more. An RDMA device that has failed may return nothing: then the queue pair is destroyed, which
// shows the same. While a path is proving, its user writes nothing but a probe.
//
// Not thread safe, except stop().
#pragma once

#include <memory>
#include <string>

#include "transports/verbs/path/posted_writes.h"
#include "transports/verbs/path/queue_pair.h"

namespace ringwood::verbs {

class Path final {
 public:
  enum class State { made, proving, alive, closing, closed };
  explicit Path(std::shared_ptr<Rail> rail) : pair_(std::move(rail)) {}
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // As in QueuePair.
  bool make(ibv_cq* queue, const PathSetting& setting, std::string& why);
  bool connect(const PathEnd& peer, const RailAddress& rail, const PathSetting& setting,
               Deadline patience, std::string& why);
  QueuePair& pair() { return pair_; }
  const QueuePair& pair() const { return pair_; }
  void use() { state_ = State::alive; }

  State state() const { return state_; }
  bool connected() const { return state_ == State::proving || state_ == State::alive; }
  // Its rail was down since it was made.
  bool interrupted() const { return outages_ != pair_.rail().events().outages(); }
  bool can_send() const { return state_ == State::alive && writes_.open() < kSends; }
  bool quiet() const { return writes_.open() == 0; }

  // Precondition: can_send(), or a probe. Returns the number of the write, or 0 if the device
  // refused (errno).
  uint64_t write(const Write& write);
  PostedWrites& writes() { return writes_; }
  const PostedWrites& writes() const { return writes_; }
  void received() { --receives_, ++owed_; }
  // Posts again the receives that were used, a few at a time unless `all`. False: refused (errno).
  bool renew_receives(bool all);

  void close();
  // Any thread, while no other makes or destroys the queue pair: it sends and receives nothing any
  // more.
  void stop() noexcept { pair_.stop(); }
  // closing -> closed when nothing can arrive any more.
  bool drain();
  bool overdue(Clock::time_point now = Clock::now()) const {
    return state_ == State::closing && patience_.passed(now);
  }
  // overdue -> closed, by destroying the queue pair; not while another thread may stop() it. False
  // if the device does not release it (errno).
  bool destroy();

 private:
  QueuePair pair_;
  PostedWrites writes_;
  State state_ = State::made;
  unsigned outages_ = 0;
  int receives_ = 0, owed_ = 0;
  Deadline patience_ = Deadline::never();
};

}  // namespace ringwood::verbs
