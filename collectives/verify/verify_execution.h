// An order in which all steps can be executed without any buffering.
//
// Part of the verifier. Precondition: ranks, peers and chunk numbers are in range, and messages are
// paired without a flaw. Linear in the number of steps; memory: 4 bytes for each step of all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "collectives/schedule/graph.h"
#include "collectives/schedule/group_schedules.h"
#include "collectives/schedule/messages.h"

namespace ringwood {

// A local step, or a send together with its receive.
struct Event {
  int32_t rank, step;
  int32_t to = -1, to_step = -1;  // the receiver's side of a message; -1: a local step
};

// Runs every step as soon as hazards, link order and zero buffering allow. Completing a step never
// prevents another from completing, so if this order gets stuck, every order does.
// `completed` is called for each event, after those that it waits for. Returns the deadlock.
std::optional<std::string> run_unbuffered(GroupSchedules all, const Graphs& graphs,
                                          const Messages& messages,
                                          const std::function<void(const Event&)>& completed);

}  // namespace ringwood
