// The parts of a call on several tensors, each a tuple with its memory and its CallOptions: one
// call of the communicator each. No state; whatever thread makes the call.
#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "torch-bridge/tensors.h"

namespace ringwood {

// The options of one part of a call, which has gone through these copies, if any.
inline CallOptions with(CallOptions how, std::shared_ptr<const CopiedMemory> copied) {
  how.copied = std::move(copied);
  return how;
}

// Writes where each part's outputs lie, once the inputs of all have been read (Tensors::both()).
// Parts are (input, outputs, ..., CallOptions); `outputs` are a tensor or a list for each.
template <class Parts, class Outputs>
void write_parts(Parts& parts, const std::vector<Outputs>& outputs, bool apart, Tensors& memory) {
  auto reading = memory.take_copied();
  for (size_t i = 0; i < parts.size(); ++i) {
    std::get<1>(parts[i]) = memory.write(outputs[i], apart);
    std::get<CallOptions>(parts[i]).copied =
        Tensors::both(std::exchange(reading, nullptr), memory.take_copied());
  }
}

// What `begin` makes of each part of a call. Several parts are a group of calls, so that small ones
// go together.
template <class Parts, class Begin>
std::vector<OperationPtr> begin_all(Communicator& group, const Parts& parts, Begin&& begin) {
  std::optional<GroupOfCalls> together;
  if (parts.size() > 1) together.emplace(group);
  std::vector<OperationPtr> all;
  for (const auto& part : parts) all.push_back(std::apply(begin, part));
  return all;
}

}  // namespace ringwood
