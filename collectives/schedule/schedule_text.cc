// The text form of a schedule.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "collectives/schedule/schedule.h"

namespace ringwood {
namespace {

struct StepName {
  StepKind kind;
  const char* name;
};
constexpr StepName kSteps[] = {
    {StepKind::send, "send"},     {StepKind::recv, "recv"}, {StepKind::recv_reduce, "recv_reduce"},
    {StepKind::reduce, "reduce"}, {StepKind::copy, "copy"},
};

// The size of a text that a reader accepts; far above any use.
constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr int kMaxRanks = 1 << 16;
constexpr int kMaxChunks = 1 << 24;
// How much of a wrong text an error message repeats.
constexpr size_t kShownBytes = 40;

std::string print(Span span) {
  if (span.count == 1) return fmt::format("[{}]", span.first);
  return fmt::format("[{}:{}]", span.first, span.first + span.count);
}

// One line of the text, read from the left.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) {}

  // A schedule's text is ASCII; whatever else the file has must not reach a terminal.
  [[noreturn]] void refuse(std::string why) const {
    std::ranges::replace_if(
        why, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    throw Error(ErrorCode::invalid_argument,
                fmt::format("schedule text, line {}: {}", number_, why));
  }

  bool at_end() {
    const size_t blank = text_.find_first_not_of(" \t\r");
    text_.remove_prefix(blank == text_.npos ? text_.size() : blank);
    return text_.empty();
  }
  bool begins_with_word(std::string_view wanted) const { return Line(*this).word() == wanted; }
  void expect_end() {
    if (at_end()) return;
    refuse(fmt::format("'{}' is too much here", text_.substr(0, kShownBytes)));
  }
  std::string_view word() {
    if (at_end()) return {};
    const std::string_view word = text_.substr(0, text_.find_first_of(" \t\r"));
    text_.remove_prefix(word.size());
    return word;
  }
  void expect(std::string_view literal) {
    if (at_end() || !text_.starts_with(literal)) {
      refuse(fmt::format("expected '{}', not '{}'", literal, text_.substr(0, kShownBytes)));
    }
    text_.remove_prefix(literal.size());
  }
  void expect_word(std::string_view wanted) {
    const std::string_view found = word();
    if (found != wanted) {
      refuse(fmt::format("expected '{}', not '{}'", wanted, found.substr(0, kShownBytes)));
    }
  }
  int number(const char* what, int low, int high) {
    at_end();
    const size_t length = std::min(text_.find_first_of(" \t\r[]:<"), text_.size());
    const std::string_view digits = text_.substr(0, length);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error != std::errc() || end != digits.end() || value < low || value > high) {
      refuse(fmt::format("{} must be a number from {} to {}, not '{}'", what, low, high,
                         digits.substr(0, kShownBytes)));
    }
    text_.remove_prefix(length);
    return value;
  }
  bool accept(char c) {
    if (at_end() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

 private:
  std::string_view text_;
  int number_;
};

Schedule parse_header(Line& line) {
  Schedule s;
  line.expect_word("schedule");
  line.expect_word("rank");
  s.rank = line.number("the rank", 0, kMaxRanks - 1);
  line.expect_word("of");
  s.n = line.number("the number of ranks", s.rank + 1, kMaxRanks);
  line.expect_word("chunks");
  s.chunks = line.number("the number of chunks", 0, kMaxChunks);
  if (line.at_end()) return s;
  line.expect_word("scratch");
  do {
    // A barrier has no user chunks; all its tokens are numbered 0.
    s.scratch.push_back(
        line.number("the chunk that scratch is like", 0, std::max(s.chunks, 1) - 1));
  } while (!line.at_end());
  return s;
}

Span parse_span(Line& line, const Schedule& s) {
  const int total = s.chunks + static_cast<int>(s.scratch.size());
  if (total == 0) line.refuse("the schedule has no chunks, declare some or scratch");
  line.expect("[");
  Span span{line.number("a chunk", 0, total - 1), 1};
  if (line.accept(':')) {
    span.count = line.number("the end of a span", span.first + 1, total) - span.first;
    if (span.first < s.chunks && span.first + span.count > s.chunks) {
      line.refuse("a span lies either in the user's chunks or in scratch, split it");
    }
  }
  line.expect("]");
  return span;
}

void parse_step(Line& line, Schedule& s) {
  const std::string_view name = line.word();
  for (const auto& [kind, known] : kSteps) {
    if (name != known) continue;
    Step step{kind, -1, {0, 0}, {0, 0}};
    if (kind == StepKind::reduce || kind == StepKind::copy) {
      step.dst = parse_span(line, s);
      line.expect("<-");
      step.src = parse_span(line, s);
      if (step.dst.count != step.src.count) line.refuse("both spans must be of equal length");
    } else {
      step.peer = line.number("a peer", 0, s.n - 1);
      if (step.peer == s.rank) line.refuse("a rank cannot send to itself, use copy");
      (kind == StepKind::send ? step.src : step.dst) = parse_span(line, s);
    }
    s.steps.push_back(step);
    while (step.peer >= 0 && !line.at_end()) {
      step.joined = true;
      (step.kind == StepKind::send ? step.src : step.dst) = parse_span(line, s);
      s.steps.push_back(step);
    }
    return;
  }
  line.refuse(fmt::format("unknown step '{}', use send, recv, recv_reduce, reduce or copy",
                          name.substr(0, kShownBytes)));
}

std::vector<Schedule> parse(std::string_view text, size_t most) {
  if (text.size() > kMaxTextBytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("schedule text: {} bytes are more than the {} allowed", text.size(),
                            kMaxTextBytes));
  }
  std::vector<Schedule> all;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(whole.size() + 1, text.size()));
    Line line(whole.substr(0, whole.find('#')), number);
    if (line.at_end()) continue;
    if (all.empty() || line.begins_with_word("schedule")) {
      if (all.size() == most) line.refuse("another schedule, where one is expected");
      all.push_back(parse_header(line));
    } else {
      parse_step(line, all.back());
    }
    line.expect_end();
  }
  if (all.empty())
    throw Error(ErrorCode::invalid_argument,
                "schedule text: there is no line 'schedule rank R of N chunks C'");
  return all;
}

// "0, 2, 3"; of many ranks the first.
std::string name_missing(const std::vector<bool>& found) {
  constexpr int kMaxNamed = 8;
  std::string names;
  int count = 0;
  for (size_t rank = 0; rank < found.size(); ++rank) {
    if (found[rank]) continue;
    if (++count > kMaxNamed) return names + ", ...";
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  return names;
}

// Throws unless every rank of the group has one schedule.
void require_all_ranks(const std::vector<Schedule>& all) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "schedule text: " + why);
  };
  const Schedule& first = all.front();
  std::vector<bool> found(static_cast<size_t>(first.n));
  for (const Schedule& s : all) {
    if (s.n != first.n)
      refuse(fmt::format("rank {} is one of {} ranks, but rank {} one of {}", s.rank, s.n,
                         first.rank, first.n));
    if (found[static_cast<size_t>(s.rank)])
      refuse(fmt::format("rank {} has two schedules", s.rank));
    found[static_cast<size_t>(s.rank)] = true;
  }
  const int missing = first.n - static_cast<int>(all.size());
  if (missing > 0)
    refuse(fmt::format("it has {} of the schedules of {} ranks: add {} of rank{} {}", all.size(),
                       first.n, missing == 1 ? "that" : "those", missing == 1 ? "" : "s",
                       name_missing(found)));
}

}  // namespace

std::string print(const Step& step) {
  for (const auto& [kind, name] : kSteps) {
    if (step.kind != kind) continue;
    if (kind == StepKind::reduce || kind == StepKind::copy) {
      return fmt::format("{} {} <- {}", name, print(step.dst), print(step.src));
    }
    return fmt::format("{} {} {}", name, step.peer,
                       print(kind == StepKind::send ? step.src : step.dst));
  }
  return "unknown step";
}

std::string print(const Schedule& schedule) {
  std::string text =
      fmt::format("schedule rank {} of {} chunks {}", schedule.rank, schedule.n, schedule.chunks);
  for (size_t i = 0; i < schedule.scratch.size(); ++i) {
    text += fmt::format("{} {}", i == 0 ? " scratch" : "", schedule.scratch[i]);
  }
  text += '\n';
  const std::vector<Step>& steps = schedule.steps;
  for (size_t i = 0, end; i < steps.size(); i = end) {
    end = end_of_message(steps, i);
    text += print(steps[i]);
    for (size_t k = i + 1; k < end; ++k)
      text += ' ' + print(steps[k].kind == StepKind::send ? steps[k].src : steps[k].dst);
    text += '\n';
  }
  return text;
}

Schedule parse_schedule(std::string_view text) { return std::move(parse(text, 1)[0]); }

std::vector<Schedule> parse_schedules(std::string_view text) {
  std::vector<Schedule> all = parse(text, kMaxRanks);
  require_all_ranks(all);
  std::ranges::sort(all, {}, &Schedule::rank);
  return all;
}

}  // namespace ringwood
