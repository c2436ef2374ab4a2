#include "collectives/device/join_passes.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "collectives/device/lowered_messages.h"

namespace ringwood::device {
namespace {

bool has(const std::vector<Ref>& refs, const Ref& ref) {
  return std::ranges::find(refs, ref) != refs.end();
}

// What one of them writes is a part of the span, or overlaps it: not the same elements.
bool clashes(const std::vector<Ref>& written, const Ref& ref) {
  return std::ranges::any_of(written, [&](const Ref& dst) {
    return dst.slot < 0 && ref.slot < 0 && dst.rank == ref.rank && overlap(dst.span, ref.span) &&
           dst.span != ref.span;
  });
}

class Joiner final {
 public:
  Joiner(const std::vector<Schedule>& all, Joining joining, Lowered& lowered, int rank)
      : chunks_(all[rank].chunks),
        joining_(joining),
        programs_(lowered.programs),
        program_(lowered.programs[rank]),
        rank_(rank) {}

  void run() {
    for (size_t second = 1; second < program_.size();) {
      const std::optional<size_t> first = pass_before(second);
      const auto joined = first ? join(*first, second) : std::nullopt;
      if (!joined) {
        ++second;
        continue;
      }
      replace(*first, second, *joined);
      second = std::max<size_t>(1, *first);  // what it is joined with may go on
    }
  }

 private:
  bool is_scratch(const Ref& ref) const {
    return ref.slot < 0 && ref.rank == rank_ && ref.span.first >= chunks_;
  }

  // The pass before this one, if this is a pass and they may be joined across what is between.
  std::optional<size_t> pass_before(size_t second) const {
    const Instruction& b = program_[second];
    if (b.verb != Verb::pass) return std::nullopt;
    bool waits = false;
    for (size_t first = second; first-- > 0;) {
      const Instruction& a = program_[first];
      waits |= a.verb == Verb::wait;
      if (a.verb != Verb::pass) continue;
      const bool row =
          a.dst.size() == 1 && b.dst == a.dst && b.src.size() > 1 && b.src[0] == a.dst[0];
      const Joining needed = !waits ? Joining::without_waits
                             : row  ? Joining::rows_over_waits
                                    : Joining::over_waits;
      return joining_ >= needed ? std::optional(first) : std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<Instruction> join(size_t first, size_t second) const {
    const Instruction &a = program_[first], &b = program_[second];
    const auto clash = [&](const Ref& ref) { return clashes(a.dst, ref); };
    if (std::ranges::any_of(b.src, clash) || std::ranges::any_of(b.dst, clash)) return std::nullopt;
    std::optional<Instruction> joined = stored_twice(a, b);
    if (!joined) joined = has(a.dst, b.src[0]) ? continued(a, b, second) : moved(a, b, second);
    if (!joined || joined->src.size() > kMaxOperands || joined->dst.size() > kMaxOperands)
      return std::nullopt;
    const auto unread = [&](const Ref& ref) {
      return joined->dst.size() > 1 && is_scratch(ref) && !is_read_after(second, ref);
    };
    std::erase_if(joined->dst, unread);
    return joined;
  }

  // The same operands, to one more place.
  std::optional<Instruction> stored_twice(const Instruction& a, const Instruction& b) const {
    if (a.src != b.src || b.dst.size() != 1) return std::nullopt;
    if (std::ranges::any_of(b.src, [&](const Ref& ref) { return has(a.dst, ref); }))
      return std::nullopt;
    if (b.row >= 0) return std::nullopt;  // its row may go on
    Instruction joined = a;
    if (!has(joined.dst, b.dst[0])) joined.dst.push_back(b.dst[0]);
    return joined;
  }

  // b begins with what a wrote.
  std::optional<Instruction> continued(const Instruction& a, const Instruction& b,
                                       size_t second) const {
    Instruction joined = a;
    if (b.src.size() == 1) {  // a copy of it
      for (const Ref& dst : b.dst)
        if (!has(joined.dst, dst)) joined.dst.push_back(dst);
      return joined;
    }
    // Otherwise a sum would be rounded once instead of twice.
    if (a.dst.size() != 1 || (a.src.size() != 1 && (b.dst != a.dst || b.row != a.row)))
      return std::nullopt;
    const Ref between = a.dst[0];
    if (std::find(b.src.begin() + 1, b.src.end(), between) != b.src.end()) return std::nullopt;
    if (!has(b.dst, between) && (!is_scratch(between) || is_read_after(second, between)))
      return std::nullopt;
    if (a.src.size() == 1) joined.own = {b.own[0]};
    joined.src.insert(joined.src.end(), b.src.begin() + 1, b.src.end());
    joined.own.insert(joined.own.end(), b.own.begin() + 1, b.own.end());
    joined.dst = b.dst;
    joined.row = b.row;
    joined.completes = b.completes;
    return joined;
  }

  // b adds up scratch that a has only copied: it may read it where it was.
  std::optional<Instruction> moved(const Instruction& a, const Instruction& b,
                                   size_t second) const {
    if (a.src.size() != 1 || a.dst.size() != 1 || !has(b.src, a.dst[0])) return std::nullopt;
    const Ref copy = a.dst[0];
    if (!is_scratch(copy) || has(b.dst, copy) || is_read_after(second, copy)) return std::nullopt;
    Instruction joined = b;
    std::ranges::replace(joined.src, copy, a.src[0]);
    return joined;
  }

  // Whether anybody reads it after an instruction of this rank: a peer at any time, this rank until
  // it is written as a whole.
  bool is_read_after(size_t after, const Ref& ref) const {
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      const bool own = static_cast<int>(rank) == rank_;
      const Program& program = programs_[rank];
      for (size_t at = own ? after + 1 : 0; at < program.size(); ++at) {
        if (program[at].verb != Verb::pass) continue;
        if (touches(program[at].src, ref.rank, ref.span)) return true;
        if (own && program[at].dst == std::vector{ref}) break;
      }
    }
    return false;
  }

  // Waits that stood between come before the joined pass, posts after it.
  void replace(size_t first, size_t second, const Instruction& joined) {
    const auto begin = program_.begin() + static_cast<ptrdiff_t>(first);
    const auto end = program_.begin() + static_cast<ptrdiff_t>(second);
    Program between(begin + 1, end);
    const auto posts =
        std::stable_partition(between.begin(), between.end(),
                              [](const Instruction& one) { return one.verb == Verb::wait; });
    between.insert(posts, joined);
    std::ranges::move(between, begin);  // one fewer than there were
    program_.erase(end);
  }

  const int chunks_;
  const Joining joining_;
  const std::vector<Program>& programs_;
  Program& program_;
  const int rank_;
};

}  // namespace

void join_passes(const std::vector<Schedule>& all, Joining joining, Lowered& lowered) {
  if (joining == Joining::none) return;
  for (size_t rank = 0; rank < all.size(); ++rank)
    Joiner(all, joining, lowered, static_cast<int>(rank)).run();
}

}  // namespace ringwood::device
