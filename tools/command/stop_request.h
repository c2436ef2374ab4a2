// Asks a command that runs until it is stopped to end in order, with its totals.
//
// As long as the object lives, SIGINT, SIGTERM and SIGHUP do not end this process but are noted;
// afterwards they do what they did before. Those that this process ignores (nohup) stay ignored.
// One object at a time.
#pragma once

#include <csignal>

namespace ringwood::tools {

class StopRequest final {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // This process has been, since the object was made.
  bool asked() const;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[3] = {};
};

}  // namespace ringwood::tools
