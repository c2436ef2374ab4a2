#include "tools/trace/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "transports/base/bytes.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr std::chrono::seconds kPatience{1};
// For one that was silent when it was last looked at.
constexpr std::chrono::milliseconds kShortPatience{50};
// Between two questions for a text that is being made.
constexpr std::chrono::milliseconds kPause{5};
// Without one byte more, and for a whole text.
constexpr std::chrono::seconds kStandstill{5}, kLongest{60};
// Until none of a job's sockets is left.
constexpr std::chrono::milliseconds kEnding{500};
// Answers of rank 0 that a rank of another host has not answered.
constexpr int kMaxSilent = 3;
constexpr size_t kMaxListed = 8;
constexpr const char* kNoAnswer =
    "it does not answer: stopped, in a debugger, or without a processor";

uint64_t a_number() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// The status sockets of this host that are asked.
class Sockets {
 public:
  Result<TracePiece> ask(const StatusName& name, const TraceQuery& query, Duration patience) {
    const Deadline deadline = Deadline::after(patience);
    OwnedFd& fd = fds_[to_string(name)];
    if (!fd) {
      auto fresh = connect_status(name, deadline);
      if (!fresh) return fresh.error();
      fd = std::move(*fresh);
    }
    auto piece = ask_trace(fd.get(), query, deadline);
    if (!piece) fd = OwnedFd();  // a late answer must not be taken for that of the next query
    return piece;
  }

 private:
  std::map<std::string, OwnedFd> fds_;
};

// A rank that ends the connection upon this question, and answers another one, does not know it.
bool is_older(const StatusName& name) {
  auto fd = connect_status(name, Deadline::after(kPatience));
  if (!fd) return false;
  return ask_status(fd->get(), {.own = true, .first = 0}, Deadline::after(kPatience)).ok();
}

// Of one group.
class Collector {
 public:
  Collector(Sockets& sockets, const GroupView& view, const std::vector<StatusName>& here,
            uint64_t text)
      : sockets_(sockets), view_(view), text_(text) {
    for (const StatusName& name : here) here_.emplace(name.rank, name);
  }

  // All ranks that can be reached make their texts.
  void begin() {
    for (const auto& [rank, name] : here_) {
      if (!view_.relayed || by_ || is_silent(rank)) continue;
      if (sockets_.ask(name, {TraceAsk::begin_all, text_, 0, 0}, kPatience)) by_ = &name;
    }
    for (const auto& [rank, name] : here_) {
      const Duration patience = is_silent(rank) ? Duration(kShortPatience) : kPatience;
      const TraceQuery query{TraceAsk::begin, text_, rank, 0};
      auto begun = sockets_.ask(name, query, patience);
      if (!begun && begun.error().code != ErrorCode::timeout && is_older(name))
        begun = again(name, query);
      if (!begun) refused_.emplace(rank, words_of(begun.error()));
    }
  }

  LiveGroup read(const std::string& name, const DumpsProgress& tell) {
    LiveGroup group{.name = name, .ranks = {}, .remarks = {}};
    size_t unreached = 0;
    for (const RankView& rank : view_.ranks) {
      const StatusName* const by = way_to(rank.rank);
      if (!by) {
        ++unreached;
        continue;
      }
      if (tell) tell(fmt::format("{}: rank {} of {}", name, rank.rank, view_.ranks.size()));
      const std::string called =
          fmt::format("rank {} of {} ({}, pid {})", rank.rank, name, rank.host, rank.pid);
      auto text = refusal_of(rank);
      if (text) text = fetch(*by, rank.rank);
      if (text)
        group.ranks.push_back({rank.rank, called, std::move(*text)});
      else if (group.remarks.size() < kMaxListed)
        group.remarks.push_back(called + ": " + words_of(text.error()));
    }
    if (unreached > 0)
      group.remarks.push_back(
          "rank 0, by way of which ranks of other hosts are asked, does not answer: `ringwood "
          "trace` on their hosts tells of them");
    return group;
  }

 private:
  static std::string words_of(const Error& error) {
    return error.code == ErrorCode::timeout ? kNoAnswer : error.cause;
  }

  bool is_silent(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return at < view_.ranks.size() && view_.ranks[at].state != RankState::reported;
  }

  Result<TracePiece> again(const StatusName& name, const TraceQuery& query) {
    auto begun = sockets_.ask(name, query, kPatience);
    if (begun || begun.error().code == ErrorCode::timeout || !is_older(name)) return begun;
    throw Error(ErrorCode::unsupported,
                fmt::format("the job (pid {}) is of an older version of ringwood, which tells its "
                            "records only at its end: run it with RINGWOOD_TRACE_DIR",
                            name.pid));
  }

  // Null: by none.
  const StatusName* way_to(int rank) const {
    const auto own = here_.find(rank);
    return own == here_.end() ? by_ : &own->second;
  }

  // What is known without a question; empty: nothing.
  Result<std::string> refusal_of(const RankView& rank) const {
    const auto refused = refused_.find(rank.rank);
    if (refused != refused_.end()) return Error(ErrorCode::peer_lost, refused->second);
    if (here_.contains(rank.rank)) return std::string();
    switch (rank.state) {
      case RankState::reported: return std::string();
      case RankState::silent: return Error(ErrorCode::timeout, kNoAnswer);
      case RankState::lost: return Error(ErrorCode::peer_lost, "its connection has ended");
      case RankState::departed: return Error(ErrorCode::peer_lost, "it has left the group");
    }
    return std::string();
  }

  Result<std::string> fetch(const StatusName& by, int rank) {
    const Deadline end = Deadline::after(kLongest);
    Deadline standstill = Deadline::after(kStandstill);
    std::string text;
    bool forgotten = false;
    int silent = 0;
    while (!end.passed() && !standstill.passed()) {
      TraceQuery query{TraceAsk::piece, text_, rank, static_cast<uint32_t>(text.size())};
      auto piece = sockets_.ask(by, query, kPatience);
      if (!piece) return piece.error();
      switch (piece->state) {
        case TraceState::here:
          text += piece->bytes;
          if (text.size() == piece->total) return text;
          standstill = Deadline::after(kStandstill);
          break;
        case TraceState::making: std::this_thread::sleep_for(kPause); break;
        case TraceState::silent:
          if (++silent == kMaxSilent) return Error(ErrorCode::timeout, kNoAnswer);
          break;
        case TraceState::unknown:  // it was silent when all others began
          if (std::exchange(forgotten, true) || !text.empty())
            return Error(ErrorCode::system, "it has too many others to tell its records to");
          query.ask = TraceAsk::begin;
          query.offset = 0;
          if (auto begun = sockets_.ask(by, query, kPatience); !begun) return begun.error();
          break;
        case TraceState::failed:
          return Error(ErrorCode::system, printable(clip(piece->bytes, kMaxTraceWords)));
        case TraceState::absent: return Error(ErrorCode::peer_lost, "its connection has ended");
      }
    }
    return Error(ErrorCode::timeout, kNoAnswer);
  }

  Sockets& sockets_;
  const GroupView& view_;
  const uint64_t text_;
  std::map<int, StatusName> here_;      // by rank
  std::map<int, std::string> refused_;  // likewise
  const StatusName* by_ = nullptr;      // for ranks of other hosts; null: they are not reached
};

// What JSON can express: the ranks have sent it.
std::string as_utf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Groups may have the same name; each is shown under one of its own.
std::string own_name(const GroupView& group, std::set<std::string>& taken) {
  const std::string base =
      group.name.empty() ? fmt::format("{:08x}", group.id >> 32) : as_utf8(group.name);
  std::string name = base;
  for (int nth = 2; !taken.insert(name).second; ++nth) name = fmt::format("{}-{}", base, nth);
  return name;
}

// The sockets of a process that ends are closed one after another.
bool has_ended(JobWatcher& watcher) {
  const Deadline patience = Deadline::after(kEnding);
  while (watcher.look()) {
    if (patience.passed()) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

[[noreturn]] void refuse(JobWatcher& watcher, const std::vector<LiveGroup>& groups) {
  if (has_ended(watcher))
    throw Error(
        ErrorCode::peer_lost,
        "the job has ended meanwhile: with RINGWOOD_TRACE_DIR its ranks leave their records "
        "in files");
  std::string why;
  for (const LiveGroup& group : groups)
    if (why.empty() && !group.remarks.empty()) why = group.remarks.front();
  throw Error(why.ends_with(kNoAnswer) ? ErrorCode::timeout : ErrorCode::network,
              "no rank of the job tells its records: " + why);
}

}  // namespace

std::vector<TracedGroup> read_live(const JobChoice& choice, const DumpsProgress& tell) {
  JobWatcher watcher(choice, Deadline::after(Duration::zero()));
  const auto view = watcher.look();
  if (!view) refuse(watcher, {});
  Sockets sockets;
  const uint64_t text = a_number();
  std::vector<Collector> collectors;
  collectors.reserve(view->groups.size());
  for (const GroupView& group : view->groups) {
    std::vector<StatusName> here = watcher.sockets();
    std::erase_if(here, [&](const StatusName& name) { return name.group != group.id; });
    collectors.emplace_back(sockets, group, here, text);
  }
  for (Collector& one : collectors) one.begin();
  std::vector<LiveGroup> groups;
  std::set<std::string> names;
  for (size_t i = 0; i < collectors.size(); ++i)
    groups.push_back(collectors[i].read(own_name(view->groups[i], names), tell));
  std::vector<TracedGroup> traced;
  for (LiveGroup& group : groups)
    if (!group.ranks.empty()) traced.push_back(read_live_group(std::move(group), tell));
  if (traced.empty()) refuse(watcher, groups);
  return traced;
}

}  // namespace ringwood::tools
