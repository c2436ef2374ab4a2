// How the group ends: as one, by its first error.
//
// An error of this rank, of its links, a deadline, a callback or its user's abort, goes to the
// control connection; the group's error comes back from there to every rank, this one included, and
// is what every operation is completed with.
//
// Thread safety: all methods, but where one says "the driver". The mutex is a leaf: nothing is
// called with it held.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "collectives/operations/operation.h"
#include "transports/base/error.h"
#include "transports/mesh.h"

namespace ringwood {

class GroupError final {
 public:
  // `wake` is called, in any thread, after the error is set: once.
  explicit GroupError(std::function<void()> wake) : wake_(std::move(wake)) {}
  // Before the first report() or end().
  void use(Mesh& mesh) { mesh_ = &mesh; }

  // The driver: an error of the data path, of this operation where it is not null. The first
  // counts, and nothing is carried out until the group's error is there.
  void report(Error error, const OperationState* operation);
  bool reported() const { return reported_; }  // the driver
  // The driver, in a handler of what a callback threw.
  void report_callback(const OperationState& operation);
  // This rank ends the group, with this error; what comes back is the error as it was told.
  Error end(Error error);
  // Likewise, in a handler of what a callback threw.
  void end_by_callback(const OperationState& operation);

  // The group's error, or an error that needs none. The first counts.
  void set(const Error& error);
  bool is_set() const { return set_.load(); }
  std::shared_ptr<const Error> get() const;  // null: none

 private:
  const std::function<void()> wake_;
  Mesh* mesh_ = nullptr;
  bool reported_ = false;
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const Error> error_;
};

}  // namespace ringwood
