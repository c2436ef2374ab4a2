// The links between two ranks, by channel: each collective that may be under way has one, and the
// messages between users. Of a transport's channels 0 is the one that is used most.
#pragma once

#include "transports/base/options.h"

namespace ringwood {

inline constexpr int kCollectiveChannel = 0, kPointToPointChannel = 1;
inline constexpr int kMaxChannels = kMaxInFlight + 1;
constexpr int channels_for(int in_flight) { return in_flight + 1; }
// Of the collectives that are under way side by side, the one with this number.
constexpr int collective_channel(int track) {
  return track == 0 ? kCollectiveChannel : track + kPointToPointChannel;
}

}  // namespace ringwood
