#include "transports/control_verdict.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace ringwood {
namespace {

constexpr size_t kMostNamed = 8;  // ranks, ranges or groups in one message

std::string place_of(const Standing& standing) {
  if (standing.sequence < 0) return "has called nothing yet";
  return fmt::format("{} #{} {}", standing.inside ? "at" : "after", standing.sequence,
                     standing.text);
}

std::string place_of(const CensusRow& row) {
  switch (row.state) {
    case CensusRow::State::answered: return place_of(row.standing);
    case CensusRow::State::died: return "died";
    case CensusRow::State::departed: return "has left the group";
    case CensusRow::State::silent: break;
  }
  return fmt::format("does not answer, last heard {:.1f} s ago at #{}", row.heard_ago_s,
                     row.standing.sequence);
}

bool answered(const CensusRow& row) { return row.state == CensusRow::State::answered; }

// The operation that the timeout is about; -1 when it is not a collective (a receive, say).
int64_t operation_of(const Error& first, const std::vector<CensusRow>& rows) {
  bool known = first.rank >= 0 && first.rank < static_cast<int>(rows.size());
  if (!known || !answered(rows[first.rank])) return first.sequence;
  const Standing& standing = rows[first.rank].standing;
  return standing.inside && standing.sequence == first.sequence ? first.sequence : -1;
}

// Neither in operation `sequence` nor through with it.
bool is_missing(const CensusRow& row, int64_t sequence) {
  if (!answered(row)) return true;
  return sequence >= 0 && row.standing.sequence < sequence;
}

void add_missing(Error& error, const std::vector<CensusRow>& rows) {
  int64_t sequence = operation_of(error, rows);
  std::vector<std::string> parts;
  int first_missing = -1;
  size_t unnamed = 0;
  for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank) {
    if (rank == error.rank || !is_missing(rows[rank], sequence)) continue;
    if (first_missing < 0) first_missing = rank;
    if (parts.size() == kMostNamed) {
      ++unnamed;
    } else {
      parts.push_back(fmt::format("rank {} ({})", rank, place_of(rows[rank])));
    }
  }
  if (unnamed > 0) parts.push_back(fmt::format("{} more", unnamed));
  bool peer_known = error.peer >= 0 && error.peer < static_cast<int>(rows.size());
  if (!parts.empty()) {
    error.cause += fmt::format("; missing: {}", fmt::join(parts, ", "));
    if (!peer_known || !is_missing(rows[error.peer], sequence)) {
      error.peer = first_missing;
      error.transport.clear();  // it was that of another peer
    }
  } else if (sequence >= 0) {
    error.cause += "; every rank has called it and answers";
  } else if (peer_known) {
    error.cause += fmt::format("; rank {} is {}", error.peer, place_of(rows[error.peer]));
  }
}

// Who called what in the operation that the mismatch is about.
std::map<std::string, std::vector<int>> calls(int64_t sequence,
                                              const std::vector<CensusRow>& rows) {
  std::map<std::string, std::vector<int>> by_text;
  for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank) {
    const Standing& standing = rows[rank].standing;
    if (!answered(rows[rank]) || !standing.inside || standing.sequence != sequence) continue;
    by_text[standing.text].push_back(rank);
  }
  return by_text;
}

void add_groups(Error& error, const std::vector<CensusRow>& rows) {
  auto by_text = calls(error.sequence, rows);
  if (by_text.size() < 2)
    return;  // a send and a receive that differ, say: the cause has told it all
  using Group = std::pair<std::string, std::vector<int>>;
  std::vector<Group> groups(by_text.begin(), by_text.end());
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.second.size() != b.second.size() ? a.second.size() > b.second.size()
                                              : a.second.front() < b.second.front();
  });
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : groups) {
    if (parts.size() < kMostNamed)
      parts.push_back(fmt::format("{} called {}", list_ranks(ranks), text));
  }
  error.cause += fmt::format("; {}", fmt::join(parts, "; "));
  if (groups.size() > parts.size()) {
    error.cause += fmt::format("; and {} more kinds", groups.size() - parts.size());
  }
  bool minority = groups.back().second.size() < groups.front().second.size();
  if (minority) error.peer = groups.back().second.front();
}

}  // namespace

bool needs_census(ErrorCode code) {
  return code == ErrorCode::timeout || code == ErrorCode::mismatch;
}

std::string left_text(int rank) {
  return fmt::format(
      "rank {} left the group (it was shut down or its process ended) without taking part", rank);
}

bool is_loss(const Error& error) {
  return error.code == ErrorCode::network || error.code == ErrorCode::peer_lost;
}

Error compose_verdict(Error first, const std::vector<CensusRow>& rows) {
  const bool peer_known = first.peer >= 0 && first.peer < static_cast<int>(rows.size());
  if (is_loss(first) && peer_known && rows[first.peer].state == CensusRow::State::departed)
    first.cause = left_text(first.peer);
  if (first.code == ErrorCode::timeout) add_missing(first, rows);
  if (first.code == ErrorCode::mismatch) add_groups(first, rows);
  return first;
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  size_t named = 0;
  for (size_t i = 0; i < ranks.size() && parts.size() < kMostNamed;) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    parts.push_back(end - i == 1 ? std::to_string(ranks[i])
                                 : fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    named += end - i;
    i = end;
  }
  std::string text =
      fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(parts, ", "));
  if (named < ranks.size()) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

}  // namespace ringwood
