#include "collectives/device/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ringwood::device {
namespace {

std::string print(const Ref& ref) {
  if (ref.slot >= 0) return fmt::format("{}<{}>", ref.rank, ref.slot);
  if (ref.row >= 0) return fmt::format("{}{{{}}}", ref.rank, ref.row);
  const Span span = ref.span;
  return span.count == 1 ? fmt::format("{}[{}]", ref.rank, span.first)
                         : fmt::format("{}[{}:{}]", ref.rank, span.first, span.first + span.count);
}

std::string print(const std::vector<Ref>& refs) {
  std::vector<std::string> words;
  for (const Ref& ref : refs) words.push_back(print(ref));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::string print(const Instruction& one) {
  if (one.verb == Verb::pass) return fmt::format("pass {} <- {}", print(one.dst), print(one.src));
  return fmt::format("{} {} #{}", one.verb == Verb::post ? "post" : "wait", one.peer, one.number);
}

std::string print(const Program& program) {
  std::string text;
  for (const Instruction& one : program) text += print(one) + '\n';
  return text;
}

}  // namespace ringwood::device
