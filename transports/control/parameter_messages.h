// The messages of a change of parameters (control.h, Control::propose).
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "transports/base/bytes.h"

namespace ringwood {

// The parameters' text: a machine model with 64 exceptional hosts.
inline constexpr size_t kMaxParameters = 16 << 10;
// Sequence numbers are below this, so that sums of them do not overflow.
inline constexpr uint64_t kMaxSequence = uint64_t{1} << 62;

struct PrepareChange {
  uint32_t epoch = 0;  // 1 and more
  std::string parameters;
};

struct ChangeReply {
  uint32_t epoch = 0;
  bool ready = false;
  uint64_t first = 0;  // ready: the first number that the rank does not submit until it is told
};

struct CommitChange {
  uint32_t epoch = 0;
  uint64_t from = 0;
};

struct AbandonChange {
  uint32_t epoch = 0;
};

void fields(auto& io, PrepareChange& prepare) {
  io.number(prepare.epoch, 1, std::numeric_limits<uint32_t>::max());
  io.text(prepare.parameters, kMaxParameters);
}

void fields(auto& io, ChangeReply& reply) {
  io.number(reply.epoch, 1, std::numeric_limits<uint32_t>::max());
  io.number(reply.ready);
  io.number(reply.first, 0, kMaxSequence);
}

void fields(auto& io, CommitChange& commit) {
  io.number(commit.epoch, 1, std::numeric_limits<uint32_t>::max());
  io.number(commit.from, 0, kMaxSequence);
}

void fields(auto& io, AbandonChange& abandon) {
  io.number(abandon.epoch, 1, std::numeric_limits<uint32_t>::max());
}

}  // namespace ringwood
