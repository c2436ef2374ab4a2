#include "collectives/device/lower.h"

#include <algorithm>
#include <array>

#include "collectives/device/join_passes.h"
#include "collectives/device/lowered_messages.h"
#include "collectives/device/number_points.h"
#include "collectives/device/prove.h"
#include "collectives/device/split_rows.h"
#include "collectives/kernels/types.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/schedule/rows.h"

namespace ringwood::device {
namespace {

constexpr std::array<Effort, kEfforts> kLevels{{{false, true, Joining::over_waits},
                                                {false, true, Joining::rows_over_waits},
                                                {false, false, Joining::over_waits},
                                                {false, false, Joining::rows_over_waits},
                                                {false, false, Joining::without_waits},
                                                {false, false, Joining::none}}};

// A rank's program before passes are joined: each step with the signals that it needs.
class Emitter final {
 public:
  Emitter(const std::vector<Schedule>& all, const MatchedMessages& matched, const Sums* sums,
          int rank)
      : schedule_(all[rank]),
        matched_(matched),
        rank_(rank),
        rows_(rows_of(all[rank])),
        sums_(sums ? &sums->steps[rank] : nullptr) {}

  Program run() {
    for (size_t at = 0; at < schedule_.steps.size(); ++at) emit(at);
    for (const int number : read_by_peers_)
      signal(Verb::wait, message(number).to, Promise::done, number);
    return std::move(program_);
  }

 private:
  const LoweredMessage& message(int number) const { return matched_.messages[number]; }
  Ref mine(Span span) const { return {rank_, span}; }
  void pass(Ref dst, std::vector<Ref> src) {
    program_.push_back({Verb::pass, {dst}, std::move(src), {-1}});
  }
  void add(Ref dst, Ref src, size_t at) {
    const SumStep sum = sums_ ? (*sums_)[added_] : SumStep{};
    ++added_;
    program_.push_back(
        {Verb::pass, {dst}, {dst, src}, {sum.dst, sum.src}, rows_[at].row, sum.completes});
  }
  void signal(Verb verb, int peer, Promise promise, int number) {
    program_.push_back({verb, {}, {}, {}, -1, false, peer, 0, promise, number});
  }

  void emit(size_t at) {
    const Step& step = schedule_.steps[at];
    const int number = matched_.of_step[rank_][at];
    if (number < 0) {
      before_write(step.dst);
      if (step.kind == StepKind::reduce)
        add(mine(step.dst), mine(step.src), at);
      else
        pass(mine(step.dst), {mine(step.src)});
    } else if (step.kind == StepKind::send) {
      send(number);
    } else if (message(number).way == Way::push) {
      take_pushed(number);
    } else {
      read(number, step.kind == StepKind::recv_reduce, at);
    }
  }

  // What peers still read of ours there has to be over. `except`: a peer that is known to be done.
  void before_write(Span dst, int except = -1) {
    std::erase_if(read_by_peers_, [&](int number) {
      const LoweredMessage& read = message(number);
      if (!overlap(read.src, dst)) return false;
      if (read.to != except) signal(Verb::wait, read.to, Promise::done, number);
      return true;
    });
  }

  void send(int number) {
    const LoweredMessage& sent = message(number);
    switch (sent.way) {
      case Way::packet: return pass({sent.to, sent.dst, number}, {mine(sent.src)});
      case Way::pull:
        signal(Verb::post, sent.to, Promise::ready, number);
        return read_by_peers_.push_back(number);
      case Way::push:
        if (!sent.answers) signal(Verb::wait, sent.to, Promise::open, number);
        pass({sent.to, sent.dst}, {mine(sent.src)});
        signal(Verb::post, sent.to, Promise::ready, number);
    }
  }

  void take_pushed(int number) {
    const LoweredMessage& pushed = message(number);
    before_write(pushed.dst, pushed.answers ? pushed.from : -1);
    if (!pushed.answers) signal(Verb::post, pushed.from, Promise::open, number);
    signal(Verb::wait, pushed.from, Promise::ready, number);
  }

  void read(int number, bool adds, size_t at) {
    const LoweredMessage& from = message(number);
    const bool pulled = from.way == Way::pull;
    before_write(from.dst);
    if (pulled) signal(Verb::wait, from.from, Promise::ready, number);
    const Ref here = mine(from.dst);
    const Ref there = pulled ? Ref{from.from, from.src} : Ref{rank_, from.dst, number};
    if (adds)
      add(here, there, at);
    else
      pass(here, {there});
    if (pulled) signal(Verb::post, from.from, Promise::done, number);
  }

  const Schedule& schedule_;
  const MatchedMessages& matched_;
  const int rank_;
  const std::vector<RowPlace> rows_;        // by step
  const std::vector<SumStep>* const sums_;  // of the rank's reductions, or null
  size_t added_ = 0;                        // reductions so far
  Program program_;
  std::vector<int> read_by_peers_;  // pulled messages of ours whose end we have not waited for
};

// A part of a step of several chunks.
Step part_of(const Step& step, int i) {
  Step part = step;
  if (step.dst.count > 0) part.dst = {step.dst.first + i, 1};
  if (step.src.count > 0) part.src = {step.src.first + i, 1};
  part.joined = step.joined || (step.peer >= 0 && i > 0);
  return part;
}

}  // namespace

Effort effort_of_level(int level, bool packets) {
  Effort effort = kLevels[static_cast<size_t>(level)];
  effort.packets = packets;
  return effort;
}

std::vector<Schedule> single_blocks(Collective collective, std::vector<Schedule> all) {
  if (!in_blocks(collective)) return all;
  for (Schedule& schedule : all) {
    std::vector<Step> steps;
    for (const Step& step : schedule.steps)
      for (int i = 0; i < std::max(step.dst.count, step.src.count); ++i)
        steps.push_back(part_of(step, i));
    schedule.steps = std::move(steps);
  }
  return all;
}

Lowered lower(const std::vector<Schedule>& all, const Sums* sums, const Effort& effort) {
  MatchedMessages matched = match_messages(all, effort);
  Lowered lowered;
  for (size_t rank = 0; rank < all.size(); ++rank)
    lowered.programs.push_back(Emitter(all, matched, sums, static_cast<int>(rank)).run());
  lowered.messages = std::move(matched.messages);
  join_passes(all, effort.joining, lowered);
  lowered.whole = !split_rows(lowered) && (!sums || sums->whole);
  hoist_posts(lowered);
  hoist_packets(lowered);
  number_points(lowered);
  return lowered;
}

std::optional<ProvedProgram> lower_proved(Collective collective, std::vector<Schedule> all,
                                          bool packets, std::string* why) {
  all = single_blocks(collective, std::move(all));
  std::optional<Sums> sums;
  if (reduces(collective)) sums = trace_sums(collective, all);
  if (sums && sums->apart)
    for (Schedule& schedule : all) schedule = with_roundings(schedule, collective, {});
  if (sums && !sums->rows_agree) {
    if (why) *why = "the ranks add in different rows, so that their bits would differ";
    return std::nullopt;
  }
  for (int level = 0; level < kEfforts; ++level) {
    Lowered lowered = lower(all, sums ? &*sums : nullptr, effort_of_level(level, packets));
    const auto flaw = prove(all, lowered);
    if (!flaw) return ProvedProgram{std::move(all), std::move(lowered), level};
    if (why) *why = *flaw;
  }
  return std::nullopt;
}

}  // namespace ringwood::device
