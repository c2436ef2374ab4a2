// How the ranks of a group find each other in a store that may contain keys of earlier jobs.
//
//   rank r > 0                                  rank 0
//     its hello, as number N in a list     ->       (meet/arrivals.h)
//                                          <-   welcome/N = session (and key), announcement
//     S/joined/r += 1                               S: the session, in every key from here on
//     S/host/r = introduction              ->
//                                          <-   S/host/0 = those of all, when all are there
//
// Every number and session is new, so keys that a killed job has left, at whatever moment, have no
// effect: rank 0 replies to a dead rank's hello as well, but counts only ranks that then write
// under S. Nothing else is counted, so ranks that gave up may try again, and a store serves one
// group after the other. All keys are removed in the end; a job that was killed or gave up leaves a
// few.
//
// A rank of another job may come to the same store (strangers/job.h). Rank 0 refuses it and logs
// why; its welcome says why, and it ends at once. A rank 0 that hears a rank of a later attempt of
// its own job is itself the one that is left over. As that rank may have been killed, rank 0
// refuses it, too, and ends only when that says hello again in reply.
//
// Of two processes that were started as one rank r both come into the session. Who then finds
// S/joined/r above 1 tells rank 0 by S/twice, and that tells all. If rank 0 does not come, they
// tell each other at their deadlines. Who comes when the group has formed waits for a rank 0 in
// vain.
//
// In an exchange each rank writes a value, or the reason why it has none, and rank 0 replies with
// the values of all, or with the first reason that it reads: so all ranks end at once, and all name
// the rank that failed and why. Only rank 0 reads what each of the others wrote, so an exchange
// costs the store a few calls for each rank, however many there are. Every call of the store ends
// at this bootstrap's deadline, but for a few seconds (store.h).
//
// A wait is silent for a minute. Then one rank says once a minute who is missing: rank 0, or, where
// rank 0 itself has not come, the first of those that have.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/options.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/meet/arrivals.h"
#include "transports/bootstrap/store.h"
#include "transports/bootstrap/strangers/refusals.h"

namespace ringwood {

// One rank's part; used by one thread. All methods throw Error; a timeout names the ranks that did
// not come.
class Bootstrap final {
 public:
  // `remind_every`: how often a wait is reported, at most.
  Bootstrap(std::shared_ptr<Store> store, int rank, int size, const Options& options,
            Duration remind_every = std::chrono::minutes(1));

  // To be called first. Returns the introductions of all ranks, by rank; `announcement` becomes
  // rank 0's, and then this rank introduces itself with what introduce(announcement) returns.
  using Introduce = std::function<std::string(const std::string& announcement)>;
  std::vector<std::string> meet(const Introduce& introduce, std::string& announcement);
  // Then: returns what make() has returned on all ranks, by rank. If it throws Error on one of
  // them, all ranks throw that.
  using Make = std::function<std::string()>;
  std::vector<std::string> exchange(const char* what, const Make& make);
  // To be called once all ranks have read everything; rank 0 removes the keys of all.
  void remove_keys();
  // To be called if this rank does not go on.
  void give_up() noexcept;

  const Identity& identity() const { return me_; }
  // A view of the store for this bootstrap only.
  Store& store() { return *store_; }
  Deadline deadline() const { return deadline_; }
  std::string master() const { return root_->master_address(); }

 private:
  void welcome_all(const std::string& announcement);
  void await_welcome(std::string& announcement);
  bool reply_to(int64_t number, const Hello& hello, const Welcome& welcome);
  Welcome ask_for_welcome();
  std::string await_reply();
  bool is_of_this_job(const Hello& hello) const;
  std::optional<std::string> reply_if_not_alone();
  void join();
  void end_if_twice();
  Error twice(const std::string& other) const;
  [[noreturn]] void end_with(const Reason& reason, int from) const;
  void enter();
  std::vector<std::string> collect(const char* what, const std::string& mine);
  void hand_out(const char* what, const std::vector<std::string>& all);
  std::vector<std::string> read_all(const char* what);
  std::string await_value(const char* what, int rank);
  void tell(const char* what, const Error& error);
  // The ranks that this one has to name; none: another rank does.
  using Absent = std::function<std::vector<int>()>;
  Deadline next_reminder() const;
  void remind(const Absent& absent);  // if it is time
  Error missing(const std::vector<int>& absent) const;
  std::vector<int> absent_from(Store& store, const char* what) const;
  std::vector<int> absent_with_root();

  struct Exchange {
    const char* what;
    uint32_t pieces = 1;  // of rank 0's reply
  };
  const std::shared_ptr<Store> root_;
  std::shared_ptr<Store> store_;
  const Options& options_;
  const Deadline deadline_;
  const Duration remind_every_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point reminded_ = began_;
  Identity me_;
  Arrivals arrivals_;
  int64_t number_ = 0;          // other ranks: N; 0: not in the list, or removed by rank 0
  std::set<int64_t> welcomed_;  // rank 0: the numbers of these
  Refusals refusals_{"bootstrap", "the store of this group"};
  std::string last_refused_;  // whom rank 0 refused, and why
  std::vector<Exchange> exchanges_;
  const char* asking_ = nullptr;  // other ranks: the exchange under way, to which this gave a value
};

}  // namespace ringwood
