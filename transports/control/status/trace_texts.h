// The texts of this rank's records that watchers are reading.
//
// Each is made in another thread. Bounded: one is made at a time and no more than one in a second
// (who begins meanwhile gets the same), kMaxKnown numbers are known, of which a new one takes the
// place of that which was asked for longest ago, and a text is forgotten when nobody has asked for
// it for kKeep. Used only in the control thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/control/status/trace_messages.h"

namespace ringwood {

class TraceTexts final {
 public:
  static constexpr size_t kMaxKnown = 4;
  static constexpr std::chrono::seconds kKeep{60}, kPeriod{1};

  // `make` begins to make a text and returns at once; not empty, and outlives this. It may throw
  // Error. What it is given may be called when this has ended.
  TraceTexts(asio::io_context& io, const std::function<void(TraceDone)>& make)
      : make_(make), timer_(io) {}

  void begin(uint64_t text);
  // Never waits.
  TracePiece piece(const TraceQuery& query);

 private:
  struct Slot;
  struct Known {
    uint64_t text;
    std::shared_ptr<Slot> slot;
    Clock::time_point asked;
  };

  Known* find(uint64_t text);
  std::shared_ptr<Slot> latest_or_new();
  void forget_old();

  const std::function<void(TraceDone)>& make_;
  asio::steady_timer timer_;
  std::vector<Known> known_;
  std::weak_ptr<Slot> latest_;
  Clock::time_point begun_{};  // the latest
  bool timed_ = false;
};

}  // namespace ringwood
