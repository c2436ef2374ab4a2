#include "collectives/executors/wait_list.h"

#include <algorithm>

#include <fmt/format.h>

namespace ringwood {
namespace {

const char* to_string(StepKind kind) {
  switch (kind) {
    case StepKind::send: return "send";
    case StepKind::recv: return "recv";
    case StepKind::recv_reduce: return "recv_reduce";
    case StepKind::reduce: return "reduce";
    case StepKind::copy: return "copy";
  }
  return "?";
}

}  // namespace

void WaitList::add(int peer, const std::string& what) {
  if (std::find(peers_.begin(), peers_.end(), peer) != peers_.end()) return;
  text_ += fmt::format("{}rank {} ({})", text_.empty() ? "" : ", ", peer, what);
  peers_.push_back(peer);
}

void WaitList::add_device(const char* what) {
  text_ += fmt::format("{}its GPU ({})", text_.empty() ? "" : ", ", what);
}

void WaitList::add_fingerprint(int peer) {
  add(peer, "its fingerprint: it has not begun this operation");
}

void WaitList::add_data(int peer, size_t step) {
  add(peer, fmt::format("step {}: its data", step));
}

void WaitList::add_message(int peer, const Plan& plan, int32_t step) {
  const BoundStep& bound = plan.steps[step];
  add(peer,
      fmt::format("step {}: {} of {} bytes", step, to_string(bound.kind), bound.message_bytes));
}

}  // namespace ringwood
