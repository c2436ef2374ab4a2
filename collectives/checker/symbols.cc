#include "collectives/checker/symbols.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace ringwood {
namespace {

constexpr int kPrintedTerms = 6;

bool continues(const SymbolPiece& before, Symbol next) {
  if (!next.defined()) return !before.what.defined();
  return before.what.id == next.id &&
         before.what.at + static_cast<int64_t>(before.bytes) == next.at;
}

}  // namespace

size_t Symbols::Hash::operator()(const Node& node) const {
  uint64_t h = static_cast<uint64_t>(node.kind);
  for (const uint64_t field : {uint64_t{node.a} << 32 | node.b, static_cast<uint64_t>(node.x),
                               static_cast<uint64_t>(node.y)}) {
    h = (h ^ field) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return h;
}

uint32_t Symbols::make(const Node& node) {
  const auto next = static_cast<uint32_t>(nodes_.size() + 1);
  const auto [found, is_new] = known_.try_emplace(node, next);
  if (is_new) nodes_.push_back(node);
  return found->second;
}

Symbol Symbols::own(int rank, int buffer, size_t offset) {
  return {make({Kind::own, static_cast<uint32_t>(rank), static_cast<uint32_t>(buffer), 0, 0}),
          static_cast<int64_t>(offset)};
}

// Expressed relative to the position of the first operand.
Symbol Symbols::sum(Symbol a, Symbol b) {
  if (!a.defined() || !b.defined()) return {};
  if (b.id < a.id || (b.id == a.id && b.at < a.at)) std::swap(a, b);
  return {make({Kind::sum, a.id, b.id, b.at - a.at, 0}), a.at};
}

Symbol Symbols::times(Symbol a, double factor) {
  if (!a.defined() || factor == 1) return a;
  return {make({Kind::times, a.id, 0, 0, std::bit_cast<int64_t>(factor)}), a.at};
}

Symbol Symbols::times_factor_of(Symbol a, int rank) {
  if (!a.defined()) return a;
  return {make({Kind::times_factor, a.id, static_cast<uint32_t>(rank), 0, 0}), a.at};
}

Symbol Symbols::divided(Symbol a, double divisor) {
  if (!a.defined() || divisor == 1) return a;
  return {make({Kind::divided, a.id, 0, 0, std::bit_cast<int64_t>(divisor)}), a.at};
}

Symbol Symbols::rounded(Symbol a) {
  if (!a.defined() || node(a.id).kind == Kind::rounded) return a;
  return {make({Kind::rounded, a.id, 0, 0, 0}), a.at};
}

// bf16 rounds each number by itself; int8 rounds in blocks counted from the beginning of the
// message, so the same numbers in a message that is cut elsewhere get other values.
SymbolRun Symbols::encoded(const SymbolRun& run, WireFormat format) {
  if (run.empty() || !defined(run)) return run;
  if (format == WireFormat::bf16)
    return mapped(run, [&](Symbol s) {
      if (node(s.id).kind == Kind::bf16) return s;
      return Symbol{make({Kind::bf16, s.id, 0, 0, 0}), s.at};
    });
  const auto bytes = static_cast<int64_t>(bytes_of(run));
  const Node& first = node(run[0].what.id);
  const bool again = first.kind == Kind::int8 && first.y == bytes && run[0].what.at == 0;
  if (run.size() == 1 && again) return run;
  uint32_t whole = 0;
  for (const SymbolPiece& piece : run)
    whole =
        make({Kind::list, whole, piece.what.id, piece.what.at, static_cast<int64_t>(piece.bytes)});
  return {{bytes_of(run), {make({Kind::int8, whole, 0, 0, bytes}), 0}}};
}

std::string Symbols::print(Symbol symbol) const {
  std::string text;
  int terms = 0;
  print(symbol, terms, text);
  return text;
}

void Symbols::print(Symbol s, int& terms, std::string& text) const {
  if (!s.defined()) {
    text += "nothing";
    return;
  }
  const Node& n = node(s.id);
  if (terms > kPrintedTerms) {
    text += "...";
    return;
  }
  const auto inner = [&](const std::string& before, Symbol of, const std::string& after) {
    text += before;
    print(of, terms, text);
    text += after;
  };
  switch (n.kind) {
    case Kind::own:
      ++terms;
      text += fmt::format("rank {}'s buffer {} from byte {}", n.a, n.b, s.at);
      return;
    case Kind::sum: inner("(", {n.a, s.at}, " + "); return inner("", {n.b, s.at + n.x}, ")");
    case Kind::times:
      return inner("", {n.a, s.at}, fmt::format(" * {}", std::bit_cast<double>(n.y)));
    case Kind::times_factor: return inner("", {n.a, s.at}, fmt::format(" * factor of {}", n.b));
    case Kind::divided:
      return inner("", {n.a, s.at}, fmt::format(" / {}", std::bit_cast<double>(n.y)));
    case Kind::rounded: return inner("round(", {n.a, s.at}, ")");
    case Kind::bf16: return inner("bf16(", {n.a, s.at}, ")");
    case Kind::int8: return inner("int8(", {n.a, 0}, ")");
    case Kind::list:
      if (n.a != 0) inner("", {n.a, 0}, ", ");
      return inner("", {n.b, n.x}, "");
  }
}

// ---- memory ------------------------------------------------------------------------------------

size_t bytes_of(const SymbolRun& run) {
  size_t bytes = 0;
  for (const SymbolPiece& piece : run) bytes += piece.bytes;
  return bytes;
}

bool defined(const SymbolRun& run) {
  return std::ranges::all_of(run, [](const SymbolPiece& piece) { return piece.what.defined(); });
}

void append(SymbolRun& run, SymbolPiece piece) {
  if (piece.bytes == 0) return;
  if (!run.empty() && continues(run.back(), piece.what))
    run.back().bytes += piece.bytes;
  else
    run.push_back(piece);
}

SymbolMemory::SymbolMemory(size_t bytes, Symbol at_first) : bytes_(bytes) {
  if (bytes > 0) parts_.push_back({0, at_first});
}

size_t SymbolMemory::part_of(size_t at) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), at,
                                      [](size_t b, const Part& part) { return b < part.begin; });
  return static_cast<size_t>(after - parts_.begin()) - 1;
}

SymbolRun SymbolMemory::read(size_t begin, size_t bytes) const {
  SymbolRun run;
  if (bytes == 0) return run;
  const size_t end = begin + bytes;
  for (size_t i = part_of(begin); i < parts_.size() && parts_[i].begin < end; ++i) {
    const size_t from = std::max(begin, parts_[i].begin);
    const size_t to = std::min(end, i + 1 < parts_.size() ? parts_[i + 1].begin : bytes_);
    Symbol what = parts_[i].what;
    if (what.defined()) what.at += static_cast<int64_t>(from - parts_[i].begin);
    append(run, {to - from, what});
  }
  return run;
}

void SymbolMemory::write(size_t begin, const SymbolRun& run) {
  const size_t end = begin + bytes_of(run);
  if (end == begin) return;
  const size_t first = part_of(begin), last = part_of(end - 1);
  std::vector<Part> fresh;
  if (parts_[first].begin < begin) fresh.push_back(parts_[first]);
  size_t at = begin;
  for (const SymbolPiece& piece : run) {
    fresh.push_back({at, piece.what});
    at += piece.bytes;
  }
  const size_t last_end = last + 1 < parts_.size() ? parts_[last + 1].begin : bytes_;
  if (end < last_end) {
    Symbol rest = parts_[last].what;
    if (rest.defined()) rest.at += static_cast<int64_t>(end - parts_[last].begin);
    fresh.push_back({end, rest});
  }
  const auto from = parts_.begin() + static_cast<long>(first);
  const auto to = parts_.begin() + static_cast<long>(last) + 1;
  const size_t same = std::min(fresh.size(), last + 1 - first);
  std::copy(fresh.begin(), fresh.begin() + static_cast<long>(same), from);
  if (fresh.size() > same)
    parts_.insert(to, fresh.begin() + static_cast<long>(same), fresh.end());
  else
    parts_.erase(from + static_cast<long>(same), to);
}

}  // namespace ringwood
