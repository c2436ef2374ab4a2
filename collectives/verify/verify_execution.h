// An order in which all steps can be executed without any buffering.
//
// Part of the verifier. Precondition: ranks, peers and chunk numbers are in range, and messages are
// paired without a flaw.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/schedule/graph.h"
#include "collectives/schedule/interpret.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

// A local step, or a send together with its receive.
struct Event {
  int32_t rank, step;
  int32_t to = -1, to_step = -1;  // the receiver's side of a message; -1: a local step
};

// Runs every step as early as hazards, link order and zero buffering allow. Completing a step never
// prevents another from completing, so if this order gets stuck, every order does.
struct Execution {
  std::vector<Event> events;
  std::optional<std::string> flaw;  // the deadlock
};
Execution run_unbuffered(const std::vector<Schedule>& all, const std::vector<Graph>& graphs,
                         const Messages& messages);

}  // namespace ringwood
