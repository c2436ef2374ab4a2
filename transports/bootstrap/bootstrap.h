// How the ranks of a group find each other in a store in which anything may lie from before.
//
//   rank r > 0                                  rank 0
//     hello/r = a fresh number N           ->
//                                          <-   welcome/N = session (and key), announcement
//     S/host/r = who I am                  ->       S: the session, in every key from here on
//                                          <-   S/go, when all are there and all hellos are gone
//
// Every number is drawn for this meeting. So what a killed job has left, at whatever moment, is met
// by nobody: rank 0 answers a hello of the dead as well, but counts only who then speaks under S,
// and looks at hello/r again until somebody does. Nothing is counted, so ranks that gave up may try
// again, and a store serves one group after the other. All keys are removed in the end; a job that
// was killed or gave up leaves a few.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transports/base/error.h"
#include "transports/base/options.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/store.h"

namespace ringwood {

// One rank's part; used by one thread. All methods throw Error, a timeout with the ranks that did
// not come.
class Bootstrap final {
 public:
  Bootstrap(std::shared_ptr<Store> store, int rank, int size, const Options& options);

  // First: what all ranks have said of themselves, by rank. `announcement` is rank 0's afterwards.
  std::vector<std::string> meet(const std::string& introduction, std::string& announcement);
  // Then: `mine` of all ranks, by rank.
  std::vector<std::string> exchange(const char* what, const std::string& mine);
  // Once all ranks have read everything; rank 0 does it for all.
  void remove_keys();
  // When this rank does not go on.
  void give_up() noexcept;

  const Identity& identity() const { return me_; }
  // Of this meeting only.
  Store& store() { return *store_; }
  Deadline deadline() const { return deadline_; }
  std::string master() const { return root_->master_address(); }

 private:
  void welcome_all(const std::string& announcement);
  void await_welcome(std::string& announcement);
  bool welcome(int rank, const std::string& text);
  void enter();
  Error missing(const std::vector<int>& absent) const;
  std::vector<int> absent_from(Store& store, const char* what) const;

  const std::shared_ptr<Store> root_;
  std::shared_ptr<Store> store_;
  const Options& options_;
  const Deadline deadline_;
  Identity me_;
  std::map<int, std::string> welcomed_;  // by rank 0: the number that it was welcomed by last
  std::vector<const char*> exchanged_;
  const char* asking_ = nullptr;  // the exchange that goes on
};

}  // namespace ringwood
