#include "tools/doctor/unmet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "tools/doctor/collect/tree.h"
#include "transports/base/error.h"
#include "transports/base/host.h"
#include "transports/bootstrap/net.h"

namespace ringwood::tools::doctor {
namespace {

// To connect to one host; beside that, for what hosts tell, and for all to leave.
constexpr std::chrono::seconds kDial{3}, kAnswer{20};
constexpr std::chrono::milliseconds kPoll{20};
constexpr size_t kMaxValue = 1'000'000;  // bytes that a store takes
constexpr size_t kMaxDiallers = 32;
constexpr const char* kCall = "unmet/call";

std::string fresh_word() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// What a rank says of itself. `word`: unlike any of another attempt over the same store.
struct Presence {
  std::string word, token, name, addresses;
};

std::string to_text(const Presence& one) {
  return fmt::format("{}\n{}\n{}\n{}", one.word, one.token, one.name, one.addresses);
}

std::optional<Presence> presence_of(const std::string& text) {
  const auto lines = lines_of(text);
  if (lines.size() != 4) return std::nullopt;
  return Presence{lines[0], lines[1], lines[2], lines[3]};
}

// Those that came, by rank.
using Present = std::map<int, Presence>;

// The keys of one attempt, which rank 0's word tells from those that an earlier one has left. What
// this rank has set goes when it leaves, "here" last.
class Keys final {
 public:
  Keys(Store& store, int rank) : store_(store), rank_(rank) {}
  ~Keys() {
    try {
      while (!set_.empty()) {
        store_.remove(set_.back());
        set_.pop_back();
      }
    } catch (const Error&) {  // a store that is gone has no keys
    }
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  void begin(const std::string& call) { call_ = call; }
  const std::string& call() const { return call_; }
  std::string of(int rank, const char* what) const {
    return fmt::format("unmet/{}/{}/{}", call_, rank, what);
  }
  void set(const std::string& key, const std::string& value) {
    set_.push_back(key);
    store_.set(key, value);
  }
  void set_own(const char* what, const std::string& value) { set(of(rank_, what), value); }

 private:
  Store& store_;
  const int rank_;
  std::string call_;
  std::vector<std::string> set_;
};

// "RANK WORD", a line for each that came.
std::string roster_of(const Present& all) {
  std::string text;
  for (const auto& [rank, one] : all) text += fmt::format("{} {}\n", rank, one.word);
  return text;
}

// At rank 0: calls, and says who has answered when all have, or nobody may come any more.
Present call_ranks(Store& store, Keys& keys, const UnmetRank& me, const Presence& own) {
  keys.begin(own.word);
  keys.set_own("here", to_text(own));
  keys.set(kCall, own.word);
  Present all{{0, own}};
  while (static_cast<int>(all.size()) < me.size && !me.arrival.passed()) {
    for (int rank = 1; rank < me.size; ++rank) {
      if (all.contains(rank) || !store.has(keys.of(rank, "here"), me.arrival)) continue;
      if (auto one = presence_of(store.get(keys.of(rank, "here"), me.arrival))) all[rank] = *one;
    }
    std::this_thread::sleep_for(kPoll);
  }
  keys.set_own("roster", roster_of(all));
  return all;
}

// At the others: answers every call until one has this rank in its roster. So neither a call nor a
// roster of an earlier attempt is taken for one of now.
Present answer_call(Store& store, Keys& keys, const UnmetRank& me, const Presence& own) {
  const Deadline& deadline = me.roster;
  const std::string line = fmt::format("{} {}", me.rank, own.word);
  for (;; std::this_thread::sleep_for(kPoll)) {
    if (deadline.passed())
      throw Error(ErrorCode::timeout, "rank 0 did not say over the store who is there");
    if (!store.has(kCall, deadline)) continue;
    const std::string call = store.get(kCall, deadline);
    if (call != keys.call()) {
      keys.begin(call.substr(0, own.word.size()));
      keys.set_own("here", to_text(own));
    }
    if (!store.has(keys.of(0, "roster"), deadline)) continue;
    const auto roster = lines_of(store.get(keys.of(0, "roster"), deadline));
    if (std::ranges::find(roster, line) == roster.end()) continue;
    Present all;
    for (const std::string& entry : roster) {
      const int rank = static_cast<int>(leading_number(entry).value_or(-1));
      if (rank < 0 || rank >= me.size) continue;
      if (auto one = presence_of(store.get(keys.of(rank, "here"), deadline))) all[rank] = *one;
    }
    return all;
  }
}

// The first rank of each host.
std::vector<int> leaders_of(const Present& all) {
  std::vector<int> leaders;
  std::set<std::string> known;
  for (const auto& [rank, one] : all)
    if (known.insert(one.token).second) leaders.push_back(rank);
  return leaders;
}

Identity identity_of(const UnmetRank& me) {
  Identity identity;  // connections carry nothing, so they have no secret
  identity.rank = me.rank;
  identity.size = me.size;
  return identity;
}

// Of hosts of one name, with the first rank's number.
std::vector<std::string> names_of(const Present& all, const std::vector<int>& leaders) {
  std::map<std::string, int> times;
  for (const int rank : leaders) ++times[all.at(rank).name];
  std::vector<std::string> names;
  for (const int rank : leaders) {
    const std::string& name = all.at(rank).name;
    names.push_back(times[name] > 1 ? fmt::format("{}#{}", name, rank) : name);
  }
  return names;
}

// "RANK reason", a line for each that does not answer.
std::string dial_all(const UnmetRank& me, const Presence& own, const Present& all,
                     const std::vector<int>& leaders) {
  std::mutex mutex;
  std::string failures;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < leaders.size(); i = next++) {
      const int to = leaders[i];
      if (to == me.rank) continue;
      std::string why;
      try {
        const std::string& theirs = all.at(to).addresses;
        auto made = dial(addresses_to_dial(own.addresses, theirs), identity_of(me),
                         {Purpose::control, 0, me.rank, to}, Deadline::after(kDial));
        if (made.ok())
          ::close(*made);
        else
          why = made.error().cause;
      } catch (const Error& error) {
        why = error.cause;
      }
      const std::lock_guard lock(mutex);
      if (!why.empty()) failures += fmt::format("{} {}\n", to, why.substr(0, why.find('\n')));
    }
  };
  std::vector<std::jthread> diallers;
  for (size_t i = 0; i < std::min(leaders.size(), kMaxDiallers); ++i) diallers.emplace_back(work);
  diallers.clear();
  return failures;
}

NotChecked missed(const std::string& host, const std::string& why) {
  NotChecked one{"hosts", why, host, {}};
  for (const Rule& rule : rules())
    if (rule.compare != nullptr) one.rules.emplace_back(rule.id);
  return one;
}

// For all of them to be dialled, by one who is answered by none.
std::chrono::seconds dialling_time(const std::vector<int>& leaders) {
  return kDial * static_cast<int>((leaders.size() + kMaxDiallers - 1) / kMaxDiallers);
}

// Short enough for a store.
std::string bounded_text(Snapshot snapshot) {
  std::string text = to_text(snapshot);
  if (text.size() <= kMaxValue) return text;
  for (NetInterface& interface : snapshot.interfaces) interface.counters.clear();
  for (RdmaPort& port : snapshot.ports) port.counters.clear();
  return to_text(snapshot);
}

// What all leaders have told, at rank 0.
Outcome conclude_from(Store& store, const Keys& keys, const UnmetRank& me, const Present& all,
                      const std::vector<int>& leaders) {
  Outcome outcome;
  outcome.complete = static_cast<int>(all.size()) == me.size;
  const Deadline deadline = Deadline::after(kAnswer + dialling_time(leaders));
  const std::vector<std::string> names = names_of(all, leaders);
  std::vector<std::string> texts(leaders.size());
  for (size_t i = 0; i < leaders.size(); ++i) {
    const int rank = leaders[i];
    try {
      Snapshot host =
          from_text(store.get(keys.of(rank, "snapshot"), deadline), fmt::format("rank {}", rank));
      host.host = names[i];
      texts[i] = store.get(keys.of(rank, "failures"), deadline);
      outcome.hosts.push_back(std::move(host));
    } catch (const Error& error) {
      outcome.probe.not_checked.push_back(missed(names[i], error.cause));
      outcome.complete = false;
    }
  }
  FailedPairs pairs;
  for (size_t from = 0; from < texts.size(); ++from)
    for (const std::string& line : lines_of(texts[from])) {
      const auto to = std::ranges::find(leaders, leading_number(line).value_or(-1));
      if (to == leaders.end()) continue;
      const int other = static_cast<int>(to - leaders.begin());
      pairs.try_emplace(std::minmax(static_cast<int>(from), other),
                        fmt::format("from {}: {}", names[from],
                                    line.substr(std::min(line.find(' ') + 1, line.size()))));
    }
  // With nobody missing and no pair that fails, it is something else.
  const bool explained = !pairs.empty();
  for (Finding& one : name_pairs("hosts-unreachable", std::move(pairs), names))
    outcome.probe.findings.push_back(one);
  if (!outcome.complete || !explained) {
    outcome.probe.not_checked.push_back(missed("", me.error.message()));
    outcome.complete = false;
  }
  return outcome;
}

// At rank 0: until the others have removed what they set, "here" last. What a rank that died has
// left is removed for it.
void let_leave(Store& store, const Keys& keys, const Present& all) {
  const Deadline leaving = Deadline::after(kDial);
  for (const auto& [rank, one] : all) {
    if (rank == 0) continue;
    while (store.has(keys.of(rank, "here"), leaving) && !leaving.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const char* what : {"failures", "snapshot", "here"}) store.remove(keys.of(rank, what));
  }
}

}  // namespace

Outcome gather_over_store(Store& store, const UnmetRank& me, const Options& options) {
  const AddressChoice chosen = choose_local_address(options, store.master_address(), true);
  const auto listener = listen(identity_of(me), chosen.host, options);
  const Presence own{fresh_word(), host_token() + " " + options.host_id,
                     options.host_id.empty() ? host_name() : options.host_id,
                     to_string(listener->addresses())};
  Keys keys(store, me.rank);
  const Present all =
      me.rank == 0 ? call_ranks(store, keys, me, own) : answer_call(store, keys, me, own);
  const auto leaders = leaders_of(all);
  if (std::ranges::find(leaders, me.rank) != leaders.end()) {
    keys.set_own("snapshot", bounded_text(me.look()));
    keys.set_own("failures", dial_all(me, own, all, leaders));
  }
  if (me.rank != 0) {
    // The listener stays until nobody dials it any more.
    store.get(keys.of(0, "done"), Deadline::after(2 * (kAnswer + dialling_time(leaders))));
    return {};
  }
  Outcome outcome = conclude_from(store, keys, me, all, leaders);
  keys.set_own("done", "1");
  let_leave(store, keys, all);
  return outcome;
}

}  // namespace ringwood::tools::doctor
