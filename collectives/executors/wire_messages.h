// Messages in a wire format (wire.h): encoded into the scratch when sent, decoded from the link's
// receive buffer when received.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/executors/additions.h"
#include "collectives/executors/plan_execution.h"

namespace ringwood {

// What the step sends, encoded: message_bytes, valid until its staging is used again.
const std::byte* encode_message(const PlanExecution& execution, const BoundStep& step);

// Decodes one piece of a message, which begins `offset` bytes after its first byte. A piece may end
// within a block; `cut` collects the parts of such a block and is kept from one piece to the next.
void decode_piece(const PlanExecution& execution, Additions& additions, const BoundStep& step,
                  std::byte* cut, size_t offset, std::span<const std::byte> piece);

// Copies numbers onto themselves, rounded as if they had been sent and received.
void round_in_place(const PlanExecution& execution, const BoundStep& step);

}  // namespace ringwood
