// A wait of the host for a device, which ends when the group does, at a deadline, or by a signal.
#pragma once

#include <c10/core/Event.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "torch-bridge/device_groups.h"
#include "torch-bridge/interrupt.h"
#include "transports/base/clock.h"

namespace ringwood {

// Until the event is done. `what`: of the call, in errors. Throws the group's error, and one of its
// own at the deadline, which ends the group. Without the GIL.
inline void wait_on_host(const c10::Event& event, DeviceUse& use, const std::string& what,
                         Deadline deadline) {
  constexpr std::chrono::microseconds kLongest{500};
  constexpr auto kSignals = std::chrono::milliseconds(100);
  auto asked = std::chrono::steady_clock::now();
  const auto end = [&](ErrorCode code, const std::string& why) {
    if (const auto group = use.communicator()) group->abort(why);
    throw Error(code, why);
  };
  for (std::chrono::microseconds pause{20}; !event.query(); pause = std::min(pause * 2, kLongest)) {
    std::this_thread::sleep_for(pause);
    if (deadline.passed())
      end(ErrorCode::timeout, what + " on " + use.device().str() +
                                  " has not ended: a rank has not called it, or its device has "
                                  "not come to it");
    const auto now = std::chrono::steady_clock::now();
    if (now - asked < kSignals) continue;
    asked = now;
    // Kernels end with the group; what a stream of the user's waits for might never end.
    if (Status status = use.status(); !status) throw Error(status.error());
    if (const std::string why = run_signal_handlers(); !why.empty()) {
      if (const auto group = use.communicator()) group->abort(why);
      rethrow_interrupt();
      throw Error(ErrorCode::aborted, why);
    }
  }
  if (Status status = use.status(); !status) throw Error(status.error());
}

}  // namespace ringwood
