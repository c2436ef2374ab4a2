#include "transports/control.h"

#include <atomic>

#include "transports/control_star.h"
#include "transports/fork_guard.h"

namespace ringwood {
namespace {

class StarControl final : public Control {
 public:
  StarControl(const Group& group, Handlers handlers)
      : star_(new ControlStar(group, std::move(handlers))) {}
  void fail(Error error) override {
    if (!forked_since(pid_)) star_->fail(std::move(error));
  }
  void leave() noexcept override {
    if (!forked_since(pid_)) star_->leave();
  }

 private:
  const int pid_ = current_pid();
  OwnedHere<ControlStar> star_;
};

// A group of one: its first error is the verdict.
class LonelyControl final : public Control {
 public:
  explicit LonelyControl(Handlers handlers) : handlers_(std::move(handlers)) {}
  void fail(Error error) override {
    if (!failed_.exchange(true) && handlers_.failed) handlers_.failed(error);
  }
  void leave() noexcept override {}

 private:
  const Handlers handlers_;
  std::atomic<bool> failed_{false};
};

}  // namespace

std::unique_ptr<Control> make_control(const Group& group, Control::Handlers handlers) {
  if (group.size() == 1) return std::make_unique<LonelyControl>(std::move(handlers));
  return std::make_unique<StarControl>(group, std::move(handlers));
}

}  // namespace ringwood
