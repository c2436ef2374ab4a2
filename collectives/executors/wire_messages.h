// Messages in a wire format (wire.h): encoded into the scratch on their way out, decoded out of
// what the link shows on their way in.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/executors/additions.h"
#include "collectives/executors/plan_execution.h"

namespace ringwood {

// What the step sends, as it travels: message_bytes, valid until its staging is used again.
const std::byte* encode_message(const PlanExecution& execution, const BoundStep& step);

// A piece of a message that begins `offset` bytes after its first. It may end within a block, whose
// parts are put together in `cut`, which is kept from one piece to the next.
void decode_piece(const PlanExecution& execution, Additions& additions, const BoundStep& step,
                  std::byte* cut, size_t offset, std::span<const std::byte> piece);

// A copy of numbers onto themselves, rounded as if they had travelled.
void round_in_place(const PlanExecution& execution, const BoundStep& step);

}  // namespace ringwood
