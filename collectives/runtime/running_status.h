// What this rank is doing, for the control connection to tell when the group asks: the collective
// that runs, or ran last.
//
// Thread safety: begin() and end(), the driver; standing(), any thread.
#pragma once

#include <atomic>

#include "collectives/fingerprint.h"
#include "collectives/posted.h"
#include "transports/control.h"

namespace ringwood {

class RunningStatus final {
 public:
  void begin(const Fingerprint& fingerprint) {
    fingerprint_.post(fingerprint);
    begun_.store(true, std::memory_order_relaxed);
    inside_.store(true, std::memory_order_release);
  }
  void end() { inside_.store(false, std::memory_order_release); }
  Standing standing() const {
    Standing s;
    s.inside = inside_.load();
    if (!begun_.load()) {
      s.text = "nothing yet";
      return s;
    }
    const Fingerprint fingerprint = fingerprint_.read();
    s.sequence = static_cast<int64_t>(fingerprint.sequence);
    s.text = describe(fingerprint);
    return s;
  }

 private:
  Posted<Fingerprint> fingerprint_;
  std::atomic<bool> inside_{false}, begun_{false};
};

}  // namespace ringwood
