// What this rank is doing, reported over the control connection when the group asks: for each
// track, the collective that runs, or that ran last.
#pragma once

#include <atomic>
#include <vector>

#include "collectives/plan/fingerprint.h"
#include "transports/base/seq_lock.h"
#include "transports/control/control.h"

namespace ringwood {

class RunningStatus final {
 public:
  class Row final {
   public:
    void begin(const Fingerprint& fingerprint) {
      fingerprint_.post(fingerprint);
      begun_.store(true, std::memory_order_relaxed);
      waits_for_gpu_.store(false, std::memory_order_relaxed);
      inside_.store(true, std::memory_order_release);
    }
    void end() { inside_.store(false, std::memory_order_release); }
    // Of an operation on memory of a device: the user's stream has not come to it.
    void wait_for_gpu(bool waits) { waits_for_gpu_.store(waits); }
    OpStatus op_status() const {
      OpStatus s;
      s.inside = inside_.load();
      if (!begun_.load()) {
        s.text = "nothing yet";
        return s;
      }
      const Fingerprint fingerprint = fingerprint_.read();
      s.sequence = static_cast<int64_t>(fingerprint.sequence);
      s.text = describe(fingerprint);
      s.waits_for_gpu = s.inside && fingerprint.memory != 0 && waits_for_gpu_.load();
      return s;
    }

   private:
    SeqLock<Fingerprint> fingerprint_;
    std::atomic<bool> inside_{false}, begun_{false}, waits_for_gpu_{false};
  };

  explicit RunningStatus(int tracks) : rows_(static_cast<size_t>(tracks)) {}
  Row& track(int number) { return rows_[static_cast<size_t>(number)]; }
  OpStatuses op_statuses() const {
    OpStatuses all;
    for (const Row& row : rows_) all.push_back(row.op_status());
    return all;
  }

 private:
  std::vector<Row> rows_;
};

}  // namespace ringwood
