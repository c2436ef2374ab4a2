// Which way each message of a group goes on a device.
#pragma once

#include <vector>

#include "collectives/device/lower.h"

namespace ringwood::device {

bool overlap(Span a, Span b);
// Whether one of the references is to such chunks in the rank's memory; slots are not.
bool touches(const std::vector<Ref>& refs, int rank, Span span);

struct MatchedMessages {
  std::vector<LoweredMessage> messages;
  std::vector<std::vector<int>> of_step;  // by rank and step: the message; -1: a local step
};
// Pure. Precondition: every send has its receive.
MatchedMessages match_messages(const std::vector<Schedule>& all, const Effort& effort);

}  // namespace ringwood::device
