#include "transports/control/control.h"

#include <atomic>

#include "transports/base/fork_guard.h"
#include "transports/control/oob_endpoint.h"

namespace ringwood {
namespace {

class OobControl final : public Control {
 public:
  OobControl(const Group& group, Handlers handlers)
      : endpoint_(new OobEndpoint(group, std::move(handlers))) {}
  void fail(Error error) override {
    if (!forked_since(pid_)) endpoint_->fail(std::move(error));
  }
  void propose(Proposal proposal) override {
    if (!forked_since(pid_)) endpoint_->propose(std::move(proposal));
  }
  void leave() noexcept override {
    if (!forked_since(pid_)) endpoint_->leave();
  }

 private:
  const int pid_ = current_pid();
  OwnedHere<OobEndpoint> endpoint_;
};

// The control of a group of one: its first error is the group error.
class LocalControl final : public Control {
 public:
  explicit LocalControl(Handlers handlers) : handlers_(std::move(handlers)) {}
  void fail(Error error) override {
    if (!failed_.exchange(true) && handlers_.failed) handlers_.failed(error);
  }
  void propose(Proposal) override {}
  void leave() noexcept override {}

 private:
  const Handlers handlers_;
  std::atomic<bool> failed_{false};
};

}  // namespace

std::unique_ptr<Control> make_control(const Group& group, Control::Handlers handlers) {
  if (group.size() == 1) return std::make_unique<LocalControl>(std::move(handlers));
  return std::make_unique<OobControl>(group, std::move(handlers));
}

}  // namespace ringwood
