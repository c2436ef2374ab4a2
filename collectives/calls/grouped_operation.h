// The handle of a call in a group. From the group's end on it forwards to the operation that
// carries the call out, alone or with others. Before, it is not done and cannot be waited for.
//
// Thread safety: all methods may be called from any thread; carry() or refuse() once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/call.h"
#include "collectives/operations/operation.h"

namespace ringwood {

class GroupedOperation final : public Operation {
 public:
  // `driver`: is told of callbacks that throw.
  GroupedOperation(const char* name, std::shared_ptr<OperationDriver> driver)
      : name_(name), driver_(std::move(driver)) {}

  Status start() override;
  bool done() const noexcept override;
  Status wait(std::chrono::milliseconds timeout) override;
  void on_done(std::function<void(const Error*)> callback) override;
  int64_t sequence() const noexcept override;
  int source() const noexcept override;

  void carry(OperationPtr carrier);
  // No operation carries it out; it ends with this error.
  void refuse(const Error& error);

 private:
  // Null before the group's end, and if refused.
  Operation* carrier() const noexcept { return known_.load(std::memory_order_acquire); }

  // Calls one of an operation that has ended so.
  void call(const std::function<void(const Error*)>& callback, const Error& error) const;

  const char* const name_;
  const std::shared_ptr<OperationDriver> driver_;
  std::atomic<Operation*> known_{nullptr};
  std::atomic<bool> refused_{false};
  std::mutex mutex_;  // a leaf
  OperationPtr carrier_;
  std::optional<Error> error_;
  std::vector<std::function<void(const Error*)>> callbacks_;
};

}  // namespace ringwood
