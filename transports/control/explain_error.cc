#include "transports/control/explain_error.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace ringwood {
namespace {

constexpr size_t kMaxNamed = 8;  // ranks, ranges or groups in one message

int64_t last_begun(const OpStatuses& op_statuses) {
  int64_t last = -1;
  for (const OpStatus& op_status : op_statuses) last = std::max(last, op_status.sequence);
  return last;
}

bool is_at(const OpStatus& op_status, int64_t sequence) {
  return op_status.inside && op_status.sequence == sequence;
}

// The channel of an operation that is under way, or -1.
int channel_of(const OpStatuses& op_statuses, int64_t sequence) {
  const auto found = std::ranges::find_if(
      op_statuses, [=](const OpStatus& op_status) { return is_at(op_status, sequence); });
  return found == op_statuses.end() ? -1 : static_cast<int>(found - op_statuses.begin());
}

std::string place_of(const StatusRow& row) {
  switch (row.state) {
    case StatusRow::State::replied: return place_of(row.op_statuses);
    case StatusRow::State::died: return "died";
    case StatusRow::State::departed: return "has left the group";
    case StatusRow::State::silent: break;
  }
  return fmt::format("does not answer, last heard {:.1f} s ago at #{}", row.heard_ago_s,
                     last_begun(row.op_statuses));
}

bool replied(const StatusRow& row) { return row.state == StatusRow::State::replied; }

// "rank 1 is at #5 barrier", "rank 1 has called nothing yet".
std::string sentence_on(int rank, const StatusRow& row) {
  const bool somewhere = replied(row) && last_begun(row.op_statuses) >= 0;
  return fmt::format("rank {} {}{}", rank, somewhere ? "is " : "", place_of(row));
}

// The operation that the timeout is about; -1 if it is not a collective (a receive, for example).
int64_t operation_of(const Error& first, const std::vector<StatusRow>& rows) {
  if (first.rank < 0 || first.rank >= static_cast<int>(rows.size())) return -1;
  if (!replied(rows[first.rank])) return first.sequence;
  return channel_of(rows[first.rank].op_statuses, first.sequence) >= 0 ? first.sequence : -1;
}

// The rank has neither begun operation `sequence` of this channel nor completed it.
bool is_missing(const StatusRow& row, int64_t sequence, int channel) {
  if (!replied(row)) return true;
  const auto at = static_cast<size_t>(channel);
  return sequence >= 0 && (at >= row.op_statuses.size() || row.op_statuses[at].sequence < sequence);
}

// What is late may be queued behind an operation that waits for others than the peer: hosts agree
// by their leaders, so a rank may wait for one that waits itself.
void add_missing_before(Error& error, const std::vector<StatusRow>& rows) {
  if (error.rank < 0 || error.rank >= static_cast<int>(rows.size())) return;
  const OpStatuses& own = rows[error.rank].op_statuses;
  const OpStatus* oldest = nullptr;
  for (const OpStatus& op_status : own)
    if (op_status.inside && (!oldest || op_status.sequence < oldest->sequence)) oldest = &op_status;
  if (!oldest) return;
  const int channel = static_cast<int>(oldest - own.data());
  std::vector<std::string> parts;
  for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank)
    if (parts.size() < kMaxNamed && rank != error.rank &&
        is_missing(rows[rank], oldest->sequence, channel))
      parts.push_back(fmt::format("rank {} ({})", rank, place_of(rows[rank])));
  if (!parts.empty())
    error.cause += fmt::format("; missing in #{}: {}", oldest->sequence, fmt::join(parts, ", "));
}

std::string waiting_for_gpus(int64_t sequence, const std::vector<StatusRow>& rows) {
  std::string text;
  size_t named = 0;
  for (int rank = 0; rank < static_cast<int>(rows.size()) && named < kMaxNamed; ++rank)
    for (const OpStatus& op_status : rows[rank].op_statuses)
      if (op_status.waits_for_gpu && is_at(op_status, sequence)) {
        text += fmt::format("{}rank {}", named == 0 ? ", waiting for their GPUs: " : ", ", rank);
        ++named;
      }
  return text;
}

void add_missing(Error& error, const std::vector<StatusRow>& rows) {
  const int64_t sequence = operation_of(error, rows);
  const int channel = sequence < 0 ? -1 : channel_of(rows[error.rank].op_statuses, sequence);
  std::vector<std::string> parts;
  int first_missing = -1;
  size_t unnamed = 0;
  for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank) {
    if (rank == error.rank || !is_missing(rows[rank], sequence, channel)) continue;
    if (first_missing < 0) first_missing = rank;
    if (parts.size() == kMaxNamed) {
      ++unnamed;
    } else {
      parts.push_back(fmt::format("rank {} ({})", rank, place_of(rows[rank])));
    }
  }
  if (unnamed > 0) parts.push_back(fmt::format("{} more", unnamed));
  bool peer_known = error.peer >= 0 && error.peer < static_cast<int>(rows.size());
  if (!parts.empty()) {
    error.cause += fmt::format("; missing: {}", fmt::join(parts, ", "));
    if (!peer_known || !is_missing(rows[error.peer], sequence, channel)) {
      error.peer = first_missing;
      error.transport.clear();  // it was another peer's
    }
  } else if (sequence >= 0) {
    error.cause += "; every rank has called it and answers" + waiting_for_gpus(sequence, rows);
  } else if (peer_known) {
    error.cause += "; " + sentence_on(error.peer, rows[error.peer]);
    add_missing_before(error, rows);
  }
}

// Who called what in the operation that the mismatch is about.
std::map<std::string, std::vector<int>> calls(int64_t sequence,
                                              const std::vector<StatusRow>& rows) {
  std::map<std::string, std::vector<int>> by_text;
  for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank) {
    const OpStatuses& op_statuses = rows[rank].op_statuses;
    const int channel = replied(rows[rank]) ? channel_of(op_statuses, sequence) : -1;
    if (channel >= 0) by_text[op_statuses[static_cast<size_t>(channel)].text].push_back(rank);
  }
  return by_text;
}

void add_groups(Error& error, const std::vector<StatusRow>& rows) {
  auto by_text = calls(error.sequence, rows);
  if (by_text.size() < 2)
    return;  // a send and a receive that differ, for example: the cause says it all
  using Group = std::pair<std::string, std::vector<int>>;
  std::vector<Group> groups(by_text.begin(), by_text.end());
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.second.size() != b.second.size() ? a.second.size() > b.second.size()
                                              : a.second.front() < b.second.front();
  });
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : groups) {
    if (parts.size() < kMaxNamed)
      parts.push_back(fmt::format("{} called {}", list_ranks(ranks), text));
  }
  error.cause += fmt::format("; {}", fmt::join(parts, "; "));
  if (groups.size() > parts.size()) {
    error.cause += fmt::format("; and {} more kinds", groups.size() - parts.size());
  }
  bool minority = groups.back().second.size() < groups.front().second.size();
  if (minority) error.peer = groups.back().second.front();
}

// A rank that has the operation of the timeout on another channel than the waiting rank, or -1.
int on_other_channel(const Error& first, const std::vector<StatusRow>& rows) {
  if (first.code != ErrorCode::timeout || operation_of(first, rows) < 0) return -1;
  const int channel = channel_of(rows[first.rank].op_statuses, first.sequence);
  const auto other = std::ranges::find_if(rows, [&](const StatusRow& row) {
    const int theirs = replied(row) ? channel_of(row.op_statuses, first.sequence) : -1;
    return theirs >= 0 && theirs != channel;
  });
  return other == rows.end() ? -1 : static_cast<int>(other - rows.begin());
}

}  // namespace

std::string place_of(const OpStatuses& op_statuses) {
  std::vector<std::string> at;
  const OpStatus* last = nullptr;
  for (const OpStatus& op_status : op_statuses) {
    if (op_status.inside)
      at.push_back(fmt::format("#{} {}{}", op_status.sequence, op_status.text,
                               op_status.waits_for_gpu ? ", waiting for its GPU" : ""));
    if (!last || op_status.sequence > last->sequence) last = &op_status;
  }
  if (!at.empty()) return fmt::format("at {}", fmt::join(at, " and "));
  if (!last || last->sequence < 0) return "has called nothing yet";
  return fmt::format("after #{} {}", last->sequence, last->text);
}

int64_t on_other_channel(const OpStatuses& a, const OpStatuses& b) {
  int64_t first = -1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].inside) continue;
    const int there = channel_of(b, a[i].sequence);
    if (there >= 0 && there != static_cast<int>(i) && (first < 0 || a[i].sequence < first))
      first = a[i].sequence;
  }
  return first;
}

Error different_priorities(int64_t sequence, int rank, int peer) {
  Error error(ErrorCode::mismatch,
              fmt::format("rank {} and rank {} called #{}, or one before it, with different "
                          "priorities",
                          rank, peer, sequence));
  error.rank = rank;
  error.peer = peer;
  error.sequence = sequence;
  return error;
}

bool needs_status_query(ErrorCode code) {
  return code == ErrorCode::timeout || code == ErrorCode::mismatch;
}

std::string left_text(int rank) {
  return fmt::format(
      "rank {} left the group (it was shut down or its process ended) without taking part", rank);
}

bool is_loss(const Error& error) {
  return error.code == ErrorCode::network || error.code == ErrorCode::peer_lost;
}

Error explain_error(Error first, const std::vector<StatusRow>& rows) {
  const bool peer_known = first.peer >= 0 && first.peer < static_cast<int>(rows.size());
  if (is_loss(first) && peer_known && rows[first.peer].state == StatusRow::State::departed)
    first.cause = left_text(first.peer);
  if (const int other = on_other_channel(first, rows); other >= 0) {
    Error mismatch = different_priorities(first.sequence, first.rank, other);
    mismatch.host = first.host;
    mismatch.collective = first.collective;
    first = std::move(mismatch);
  }
  if (first.code == ErrorCode::timeout) add_missing(first, rows);
  if (first.code == ErrorCode::mismatch) add_groups(first, rows);
  return first;
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  size_t named = 0;
  for (size_t i = 0; i < ranks.size() && parts.size() < kMaxNamed;) {
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
