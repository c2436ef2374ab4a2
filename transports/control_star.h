// The control connections of one rank: a star, seen from its middle (the root, rank 0) or a point.
//
// Everything but the constructor, the destructor, fail() and leave() happens in its one thread.
// A group's error goes through three stages: `first_` (frozen by the root, or reported to it by a
// point), the census or grace in which the root learns more about it, and the verdict, which is
// delivered once. When the root has left, the points no longer hear of each other: an error stays
// with the rank that reports it, and a death is noticed by the links to the dead only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transports/asio.h"
#include "transports/control_channel.h"
#include "transports/control_verdict.h"

namespace ringwood {

// One other rank, as this one sees it.
struct Member {
  std::unique_ptr<ControlChannel> channel;  // null: no connection between the two
  Introduction who;                         // pid 0: it has not spoken yet
  Clock::time_point heard = Clock::now();
  int unanswered = 0;  // heartbeats to it since
  bool warned = false;
  bool left = false;          // it said goodbye
  bool goodbye_seen = false;  // it has our goodbye
  bool died = false;
  bool counted = false;  // it answered the census
  Standings standings;   // its answer, or of its last heartbeat

  bool present() const { return channel && channel->open() && !left; }
};

class ControlStar final {
 public:
  // Connects; throws Error.
  ControlStar(const Group& group, Control::Handlers handlers);
  ~ControlStar();
  void fail(Error error);
  void leave() noexcept;

 private:
  bool is_root() const { return rank_ == 0; }
  std::string name(int rank) const;
  Standings own_standings() const;
  void add_member(int rank, int fd);
  void run();
  void send_to_present(MessageType type, std::string_view body = {});

  void tick();
  void watch(int rank, Clock::time_point now);
  void note_heard(int rank);
  bool on_message(int rank, const Message& message);
  bool on_message_of_point(int rank, const Message& message);
  bool on_message_of_root(const Message& message);
  bool on_goodbye(int rank);
  void on_ended(int rank, const std::string& why);

  void report(Error error);
  void await_verdict();
  void freeze(Error error);
  void on_death(int rank, Error error);
  void count(int rank, const Standings& standings);
  void compare_channels(int rank);
  void conclude_when_complete();
  void conclude();
  void settle_before_leaving();
  std::vector<CensusRow> rows() const;
  void deliver(const Error& error);
  void deliver_own(Error error);

  void say_goodbye();
  void check_goodbyes();

  const int rank_, size_;
  const std::chrono::milliseconds heartbeat_;
  const Control::Handlers handlers_;
  asio::io_context io_{1};
  asio::steady_timer ticks_{io_}, verdict_timer_{io_};
  std::vector<Member> members_;  // by rank; a point has a channel to rank 0 only
  Clock::time_point ticked_ = Clock::now();
  Standings ticked_at_;  // this rank's, then
  std::optional<Error> first_;
  bool delivered_ = false;
  bool leaving_ = false;

  std::mutex mutex_;
  std::condition_variable goodbyes_done_;
  bool goodbyes_said_ = false, goodbyes_complete_ = false;  // guarded by mutex_
  std::atomic<bool> leave_called_{false};
  std::thread thread_;
};

}  // namespace ringwood
