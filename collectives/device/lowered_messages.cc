#include "collectives/device/lowered_messages.h"

#include <algorithm>

#include "collectives/schedule/interpret.h"

namespace ringwood::device {
namespace {

bool uses(const Step& step, Span span) {
  return (step.src.count > 0 && overlap(step.src, span)) ||
         (step.dst.count > 0 && overlap(step.dst, span));
}

// A receive into scratch that the next step to touch it adds up: the sum may as well read it there.
bool is_added_next(const Schedule& schedule, int recv) {
  const Span dst = schedule.steps[recv].dst;
  if (dst.first < schedule.chunks) return false;
  const auto next = std::find_if(schedule.steps.begin() + recv + 1, schedule.steps.end(),
                                 [&](const Step& step) { return uses(step, dst); });
  return next != schedule.steps.end() && next->kind == StepKind::reduce && next->src == dst &&
         !overlap(next->dst, dst);
}

Way way_of(const std::vector<Schedule>& all, const LoweredMessage& message, const Effort& effort) {
  if (effort.packets) return Way::packet;
  const Schedule& receiver = all[message.to];
  const bool adds = receiver.steps[message.recv].kind == StepKind::recv_reduce;
  return !effort.push || adds || is_added_next(receiver, message.recv) ? Way::pull : Way::push;
}

// See LoweredMessage::answers: the receiver's last use of what is overwritten is a message to the
// sender, which the sender has pulled before it sends.
bool answers(const std::vector<Schedule>& all, const MatchedMessages& matched,
             const LoweredMessage& message) {
  const std::vector<Step>& steps = all[message.to].steps;
  for (int at = message.recv - 1; at >= 0; --at) {
    const Step& step = steps[at];
    if (!uses(step, message.dst)) continue;
    if (step.kind != StepKind::send || step.peer != message.from || step.src != message.dst)
      return false;
    const LoweredMessage& asked = matched.messages[matched.of_step[message.to][at]];
    return asked.way == Way::pull && asked.recv < message.send;
  }
  return false;
}

}  // namespace

bool overlap(Span a, Span b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

bool touches(const std::vector<Ref>& refs, int rank, Span span) {
  return std::ranges::any_of(refs, [&](const Ref& ref) {
    return ref.slot < 0 && ref.rank == rank && overlap(ref.span, span);
  });
}

MatchedMessages match_messages(const std::vector<Schedule>& all, const Effort& effort) {
  const Messages pairs = pair_messages(all);
  MatchedMessages matched;
  for (const Schedule& schedule : all) matched.of_step.emplace_back(schedule.steps.size(), -1);
  for (const Messages::Message& pair : pairs.messages) {
    LoweredMessage message;
    message.from = pair.from;
    message.to = pair.to;
    message.send = pair.send - pairs.first[pair.from];
    message.recv = pair.recv - pairs.first[pair.to];
    message.src = all[message.from].steps[message.send].src;
    message.dst = all[message.to].steps[message.recv].dst;
    message.way = way_of(all, message, effort);
    const int number = static_cast<int>(matched.messages.size());
    matched.of_step[message.from][message.send] = number;
    matched.of_step[message.to][message.recv] = number;
    matched.messages.push_back(message);
  }
  for (LoweredMessage& message : matched.messages)
    message.answers = message.way == Way::push && answers(all, matched, message);
  return matched;
}

}  // namespace ringwood::device
