// What an executor waits for, in words.
#include <fmt/format.h>

#include "collectives/executor.h"

namespace ringwood {
namespace {

constexpr const char* kUnheard = "its fingerprint: it has not begun this operation";

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

std::string Executor::waiting_for(std::vector<int>* peers) const {
  std::string text;
  if (idle()) return text;
  const auto add = [&](int peer, const std::string& what) {
    if (peers) peers->push_back(peer);
    text += fmt::format("{}rank {} ({})", text.empty() ? "" : ", ", peer, what);
  };
  if (by_letter()) {
    for (int peer = 0; peer < mesh_.size; ++peer)
      if (boxes_[peer] && !heard_[peer]) add(peer, kUnheard);
    if (request_.plan->protocol != Protocol::queued && agreed_ &&
        cursor_ < request_.plan->steps.size()) {
      const BoundStep& step = request_.plan->steps[cursor_];
      if (step.peer >= 0) add(step.peer, fmt::format("step {}: its data", cursor_));
    }
  }
  for (const Run& run : runs_) {
    std::string one;
    const auto& receives = run.queue->receives;
    const auto& sends = run.queue->sends;
    if (run.heard < run.hearings_posted) {
      one = kUnheard;
    } else if (run.receives_done < run.receives_posted) {
      const int32_t index = receives[run.receives_done];
      one =
          fmt::format("step {}: {} of {} bytes", index, to_string(request_.plan->steps[index].kind),
                      request_.plan->steps[index].message_bytes);
    } else if (run.sends_done < run.sends_posted) {
      const int32_t index = sends[run.sends_done];
      one = fmt::format("step {}: send of {} bytes", index,
                        request_.plan->steps[index].message_bytes);
    } else {
      continue;
    }
    add(run.queue->peer, one);
  }
  return text;
}

}  // namespace ringwood
