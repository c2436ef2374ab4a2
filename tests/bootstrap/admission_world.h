// An acceptor with all that dials it, on a simulated clock: a kernel's queue of connections, one
// thread that accepts and carries out what Admission says, and peers who are far away, try again
// when they are dropped, and give up when nothing comes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "transports/bootstrap/admission/admission.h"

namespace ringwood::testing {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What one peer does.
struct Dialler {
  enum class Kind {
    honest,      // says hello as it connects, replies, and is then in
    silent,      // connects, and no more
    half_silent  // says hello, and never replies
  } kind;
  std::string source;
  Duration delay;  // of a packet, one way
  // Since it first dialled.
  Duration first_try{}, in_after = Duration::max();
  size_t tries = 0, dropped = 0;
};

class AdmissionWorld {
 public:
  explicit AdmissionWorld(size_t places) : admission_(places) {}

  void add(size_t count, Dialler dialler, const std::function<std::string(size_t)>& source_of) {
    for (size_t i = 0; i < count; ++i) {
      dialler.source = source_of(i);
      diallers_.push_back(std::make_unique<Dialler>(dialler));
      if (dialler.kind == Dialler::Kind::honest) ++outside_;
    }
  }

  // Until all honest ones are in, or `limit` has passed.
  void run(Duration limit) {
    for (auto& one : diallers_) {
      Dialler* who = one.get();
      at(who->first_try, [this, who] { dial(*who, milliseconds(2)); });
    }
    while (outside_ > 0 && !events_.empty() && events_.top().when <= start_ + limit) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.when;
      event.happen();
    }
  }

  size_t outside() const { return outside_; }
  size_t tries_of_honest() const {
    size_t tries = 0;
    for (const auto& one : diallers_)
      if (one->kind == Dialler::Kind::honest) tries += one->tries;
    return tries;
  }
  Duration slowest() const {
    Duration slowest{};
    for (const auto& one : diallers_)
      if (one->kind == Dialler::Kind::honest) slowest = std::max(slowest, one->in_after);
    return slowest;
  }

 private:
  using Time = Admission::Time;
  static constexpr size_t kQueue = 4096;                    // of the kernel
  static constexpr Duration kAccept = microseconds(40);     // of the acceptor's thread
  static constexpr Duration kMessage = microseconds(60);    // likewise
  static constexpr Duration kAgain = seconds(1);            // a lost first packet is sent again
  static constexpr Duration kMaxPause = milliseconds(200);  // between tries
  static constexpr Duration kPatience = seconds(5);
  static constexpr Duration kStrangersPause = milliseconds(50);

  struct Connection {
    Dialler* who;
    Duration pause;       // after which its dialler tries again
    bool over = false;    // dropped, given up or in
    bool closed = false;  // by its dialler
    Time challenged{};
  };
  using ConnectionPtr = std::shared_ptr<Connection>;
  struct Event {
    Time when;
    uint64_t order;
    std::function<void()> happen;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  // Nothing on a network happens in step.
  Duration about(Duration time) {
    return time + Duration(static_cast<int64_t>(random_()) % (time.count() / 4));
  }

  void at(Duration after, std::function<void()> happen) {
    events_.push({now_ + after, order_++, std::move(happen)});
  }

  // ---- a dialler ----
  void dial(Dialler& who, Duration pause) {
    ++who.tries;
    const auto one = std::make_shared<Connection>(Connection{&who, pause});
    at(about(3 * who.delay), [this, one] { arrive(one); });
    if (who.kind == Dialler::Kind::honest) {
      at(2 * who.delay + kPatience, [this, one] {
        if (one->over || one->closed) return;
        one->closed = true;
        try_again(*one);
      });
    }
  }

  void arrive(const ConnectionPtr& one) {
    if (one->closed) return;
    if (door_.size() >= kQueue) return at(about(kAgain), [this, one] { arrive(one); });
    door_.push_back(one);
    serve();
  }

  void try_again(const Connection& one) {
    Dialler& who = *one.who;
    const bool honest = who.kind == Dialler::Kind::honest;
    const Duration next = std::min<Duration>(2 * one.pause, kMaxPause);
    at(about(honest ? one.pause : kStrangersPause), [this, &who, next] { dial(who, next); });
  }

  // ---- the acceptor's thread: one thing at a time ----
  void serve() {
    if (serving_) return;
    serving_ = true;
    at(std::max<Duration>(busy_until_ - now_, Duration::zero()), [this] {
      serving_ = false;
      turn();
    });
  }

  void turn() {
    Duration took{};
    while (!replies_.empty() && took < milliseconds(1)) {
      finish(replies_.front());
      replies_.pop_front();
      took += kMessage;
    }
    took += act();
    while (!door_.empty() && took < milliseconds(1)) {
      if (admission_.full()) {
        const auto drop = admission_.in_the_way(now_);
        if (!drop) break;
        this->drop(drop->id);
      }
      accept();
      took += kAccept + act();
    }
    busy_until_ = now_ + took;
    if (took > Duration::zero()) return serve();
    const Time change = admission_.next_change(now_);
    if (change != Time::max() && change != wake_) {
      wake_ = change;
      at(change - now_, [this] { serve(); });
    }
  }

  Duration act() {
    Duration took{};
    while (const auto action = admission_.next(now_)) {
      if (action->kind == Admission::Action::Kind::drop)
        drop(action->id);
      else
        challenge(action->id);
      took += kMessage;
    }
    return took;
  }

  void accept() {
    const ConnectionPtr one = door_.front();
    door_.pop_front();
    const Admission::Id id = admission_.came(one->who->source, now_);
    inside_[id] = one;
    EXPECT_LE(inside_.size(), kMaxPlaces);
    if (one->who->kind != Dialler::Kind::silent) admission_.spoke(id);
  }

  void challenge(Admission::Id id) {
    const ConnectionPtr one = inside_.at(id);
    one->challenged = now_;
    if (one->who->kind != Dialler::Kind::honest) return;
    if (one->closed) return reply(id, Duration::zero());
    reply(id, 2 * one->who->delay);
  }

  void reply(Admission::Id id, Duration after) {
    at(after, [this, id] {
      if (!inside_.contains(id)) return;
      replies_.push_back(id);
      serve();
    });
  }

  void finish(Admission::Id id) {
    const auto found = inside_.find(id);
    if (found == inside_.end()) return;
    const ConnectionPtr one = found->second;
    inside_.erase(found);
    admission_.left(id);
    if (one->closed) return;
    one->over = true;
    one->who->in_after = now_ - start_ - one->who->first_try;
    --outside_;
  }

  void drop(Admission::Id id) {
    const ConnectionPtr one = inside_.at(id);
    inside_.erase(id);
    admission_.left(id);
    if (one->challenged != Time{}) {
      EXPECT_GE(now_ - one->challenged, Admission::kReplyTime)
          << "a reply may have been on its way";
    }
    ++one->who->dropped;
    if (one->closed) return;
    at(one->who->delay, [this, one] {
      if (one->closed) return;
      one->over = true;
      try_again(*one);
    });
  }

  static constexpr size_t kMaxPlaces = 4096;
  Admission admission_;
  std::vector<std::unique_ptr<Dialler>> diallers_;
  size_t outside_ = 0;
  const Time start_ = Time{} + seconds(1);
  Time now_ = start_, busy_until_ = start_, wake_{};
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  std::mt19937 random_{20261126};
  std::deque<ConnectionPtr> door_;
  std::deque<Admission::Id> replies_;
  std::map<Admission::Id, ConnectionPtr> inside_;
  bool serving_ = false;
};

}  // namespace ringwood::testing
