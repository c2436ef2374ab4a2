// Who meets whom, and an order in which everything can happen without a byte of buffering.
//
// Part of the verifier. Steps of all ranks are numbered through: step i of rank r is first[r] + i.
// Precondition: ranks, peers and chunk numbers are in range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/graph.h"
#include "collectives/schedule.h"

namespace ringwood {

// "rank 3 step 2 (send 1 [0])"
std::string step_words(const std::vector<Schedule>& all, int rank, int step);

// The k-th send a -> b and the k-th receive at b from a.
struct Messages {
  struct Message {
    int32_t from, to;
    int32_t send, recv;  // numbers of the two steps
  };
  std::vector<int32_t> first;       // by rank, and the number of all steps
  std::vector<Message> messages;    // by (from, to), then in link order
  std::optional<std::string> flaw;  // a send without its receive, or the other way round
};
Messages pair_messages(const std::vector<Schedule>& all);

// A local step, or a send together with its receive.
struct Event {
  int32_t rank, step;
  int32_t to = -1, to_step = -1;  // the receiver's side of a message; -1: a local step
};

// Runs everything as early as hazards, link order and zero buffering allow. Completing a step never
// stops another from completing, so if this order gets stuck, every order does.
struct Execution {
  std::vector<Event> events;
  std::optional<std::string> flaw;  // the deadlock
};
Execution execute(const std::vector<Schedule>& all, const std::vector<Graph>& graphs,
                  const Messages& messages);

}  // namespace ringwood
