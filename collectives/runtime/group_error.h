// The one error with which a group ends, the first: where the engine reports its errors, and where
// the one that ErrorDelivery (transports/control/error_delivery.h) delivers is kept.
//
// An error of this rank (of its links, a deadline, a callback, or an abort by the user) goes to the
// control connection. The control connection then delivers the group's error to every rank,
// including this one, and every pending operation is completed with it.
//
// Of several errors the group's is the first that rank 0 hears of, on every rank: also a rank that
// ends the group itself waits to be told, because another may have been first.
//
// Thread safety: all methods may be called from any thread, except those marked "the driver". The
// mutex is a leaf: nothing is called while it is held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "collectives/operations/operation.h"
#include "transports/base/error.h"
#include "transports/mesh.h"

namespace ringwood {

class GroupError final {
 public:
  // `wake` is called once, in any thread, after the error is set.
  explicit GroupError(std::function<void()> wake) : wake_(std::move(wake)) {}
  // Before the first report() or end().
  void use(Mesh& mesh) { mesh_ = &mesh; }

  // The driver: reports an error of the data path, in this operation unless null. The first counts.
  // Nothing is carried out any more until the group's error arrives.
  void report(Error error, const OperationState* operation);
  bool reported() const { return reported_; }  // the driver
  // The driver, in the handler of an exception from a callback.
  void report_callback(const OperationState& operation);
  // This rank ends the group with this error. Returns the group's, which is set: this one, or one
  // that was first. Waits for the control thread, so not with a lock that its handlers take: until
  // rank 0 has answered, or is known not to, and 5 s at most.
  Error end(Error error);
  // Likewise, in the handler of an exception from a callback.
  void end_by_callback(const char* operation, int64_t number);

  // Sets the group's error, or an error that needs no group. The first counts.
  void set(const Error& error);
  bool is_set() const { return set_.load(); }
  std::shared_ptr<const Error> get() const;  // null: none

 private:
  const std::function<void()> wake_;
  Mesh* mesh_ = nullptr;
  bool reported_ = false;
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  std::condition_variable known_;
  std::shared_ptr<const Error> error_;
};

}  // namespace ringwood
