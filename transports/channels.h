// The links between two ranks, by channel: one for each collective that may be under way, and one
// for the messages between users. Channel 0 of a transport is used most.
#pragma once

#include "transports/base/options.h"

namespace ringwood {

inline constexpr int kCollectiveChannel = 0, kPointToPointChannel = 1;
inline constexpr int kMaxChannels = kMaxInFlight + 1;
constexpr int channels_for(int in_flight) { return in_flight + 1; }
// The channel of the collective with this number, among those under way at once.
constexpr int collective_channel(int track) {
  return track == 0 ? kCollectiveChannel : track + kPointToPointChannel;
}

}  // namespace ringwood
