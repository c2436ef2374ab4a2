#include "collectives/verify/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace ringwood {
namespace {

using Flaw = std::optional<std::string>;

bool reads_src(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::reduce || kind == StepKind::copy;
}
bool is_local(StepKind kind) { return kind == StepKind::reduce || kind == StepKind::copy; }

class Steps {
 public:
  Steps(const Rules& rules, GroupSchedules all) : rules_(rules), all_(all) {}

  Flaw check_schedule(int rank) const {
    const ScheduleView s = all_[rank];
    if (s.rank != rank || s.n != rules_.n || s.chunks != rules_.chunks) {
      return fmt::format("schedule {} of {} says rank {} of {} with {} chunks, not {}", rank,
                         rules_.n, s.rank, s.n, s.chunks, rules_.chunks);
    }
    for (int i = 0; i < s.scratch_size(); ++i) {
      const int like = s.scratch(i);
      const bool token = !moves_data(rules_.collective) && like == 0;
      if (token) continue;
      if (like < 0 || like >= s.chunks || !rules_.mapped(rank, like)) {
        return fmt::format("rank {} scratch {} has the size of chunk {}, which has none", rank, i,
                           like);
      }
    }
    for (int32_t i = 0; i < s.size(); ++i) {
      const Step step = s.step(i);
      if (Flaw flaw = check_step(s, step)) {
        return fmt::format("{} {}", step_words(all_, rank, i), *flaw);
      }
      if (step.joined && (i == 0 || !may_join(s.step(i - 1), step))) {
        return fmt::format("{} is joined to something that is no message to, or from, its peer",
                           step_words(all_, rank, i));
      }
    }
    return std::nullopt;
  }

  Flaw check_message(int rank, const Messages::Message& message) const {
    const ScheduleView from = all_[rank], to = all_[message.to];
    const Step send = from.step(message.send), recv = to.step(message.recv);
    const Span src = send.src, dst = recv.dst;
    bool equal = src.count == dst.count;
    for (int i = 0; equal && i < src.count; ++i) {
      equal = size_class(from, src.first + i) == size_class(to, dst.first + i);
    }
    const auto refuse = [&](std::string_view why) {
      return fmt::format("{} meets {}, {}", step_words(all_, rank, message.send),
                         step_words(all_, message.to, message.recv), why);
    };
    const bool blocks = in_blocks(rules_.collective);
    if (equal && blocks && src.count > 1 &&
        (src.first < rules_.chunks) != (dst.first < rules_.chunks)) {
      return refuse("of which one is scratch and travels as one");
    }
    if (equal && send.joined != recv.joined)
      return refuse("of which one is joined to the message before it");
    if (equal) return std::nullopt;
    return refuse(src.count == dst.count ? "whose size may differ" : "of another length");
  }

 private:
  static bool may_join(const Step& before, const Step& step) {
    return !is_local(step.kind) && before.kind == step.kind && before.peer == step.peer;
  }

  Flaw check_step(const ScheduleView& s, const Step& step) const {
    if (!is_local(step.kind)) {
      if (step.peer < 0 || step.peer >= s.n) return "names a peer that does not exist";
      if (step.peer == s.rank) return "is to itself";
    }
    if (reads_src(step.kind)) {
      if (Flaw flaw = check_span(s, step.src)) return flaw;
    }
    if (step.kind == StepKind::send) return std::nullopt;
    if (Flaw flaw = check_span(s, step.dst)) return flaw;
    const int first = step.dst.first, end = first + step.dst.count;
    for (int c = first; c < std::min(end, s.chunks); ++c) {
      if (!rules_.writable(s.rank, c)) return fmt::format("writes chunk {}, which is read only", c);
    }
    if (!is_local(step.kind)) return std::nullopt;
    if (step.src.count != step.dst.count) return "has spans of different lengths";
    if (step.src.first < end && first < step.src.first + step.src.count) {
      return "has spans that overlap";
    }
    for (int i = 0; i < step.dst.count; ++i) {
      if (size_class(s, first + i) != size_class(s, step.src.first + i)) {
        return fmt::format("joins chunks {} and {}, whose sizes may differ", first + i,
                           step.src.first + i);
      }
    }
    return std::nullopt;
  }

  Flaw check_span(const ScheduleView& s, Span span) const {
    const int64_t total = s.chunks + int64_t{s.scratch_size()};
    const int64_t end = static_cast<int64_t>(span.first) + span.count;
    if (span.first < 0 || span.count < 1 || end > total) {
      return fmt::format("names chunks beyond the {} there are", total);
    }
    if (span.first >= s.chunks) return std::nullopt;
    if (end > s.chunks || rules_.buffer(span.first) != rules_.buffer(static_cast<int>(end) - 1)) {
      return "has a span across two buffers or segments";
    }
    for (int c = span.first; c < end; ++c) {
      if (!rules_.mapped(s.rank, c))
        return fmt::format("uses chunk {}, which has no memory here", c);
    }
    return std::nullopt;
  }

  int64_t size_class(const ScheduleView& s, int chunk) const {
    if (!moves_data(rules_.collective)) return 0;
    return rules_.size_class(s.rank, chunk < s.chunks ? chunk : s.scratch(chunk - s.chunks));
  }

  const Rules& rules_;
  const GroupSchedules all_;
};

}  // namespace

std::optional<std::string> flaw_of_schedules(const Rules& rules, GroupSchedules all) {
  const Steps steps(rules, all);
  for (int rank = 0; rank < all.size(); ++rank)
    if (Flaw flaw = steps.check_schedule(rank)) return flaw;
  return std::nullopt;
}

std::optional<std::string> flaw_of_messages(const Rules& rules, GroupSchedules all,
                                            const Messages& messages) {
  const Steps steps(rules, all);
  for (int rank = 0; rank < all.size(); ++rank)
    for (const Messages::Message& message : messages.from(rank))
      if (Flaw flaw = steps.check_message(rank, message)) return flaw;
  return std::nullopt;
}

}  // namespace ringwood
