// Whether steps are well formed, one by one and as messages: the first two parts of the proof.
//
// Part of the verifier. Linear in the number of steps and of chunks in them. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "collectives/schedule/group_schedules.h"
#include "collectives/schedule/messages.h"
#include "collectives/verify/verify_rules.h"

namespace ringwood {

// Of the first rank and step with one: ranks, chunks, spans or peers out of range, a message to
// the rank itself, what must not be written or touched, local spans that do not fit together.
std::optional<std::string> flaw_of_schedules(const Rules& rules, GroupSchedules all);

// Of the first message, by (from, to), then in link order, whose ends differ in the sizes of their
// chunks, or in how it travels. Precondition: no flaw of schedules, nor of the pairing.
std::optional<std::string> flaw_of_messages(const Rules& rules, GroupSchedules all,
                                            const Messages& messages);

}  // namespace ringwood
