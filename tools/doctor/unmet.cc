#include "tools/doctor/unmet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
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
constexpr size_t kMaxValue = 1'000'000;  // bytes that a store takes
constexpr size_t kMaxDiallers = 32;
constexpr const char* kDone = "unmet/done";

std::string key_of(int rank, const char* what) { return fmt::format("unmet/{}/{}", rank, what); }

// What a rank says of itself.
struct Presence {
  std::string token, name, addresses;
};

std::string to_text(const Presence& one) {
  return fmt::format("{}\n{}\n{}", one.token, one.name, one.addresses);
}

std::optional<Presence> presence_of(const std::string& text) {
  const auto lines = lines_of(text);
  if (lines.size() != 3) return std::nullopt;
  return Presence{lines[0], lines[1], lines[2]};
}

// Those that came, by rank.
using Present = std::map<int, Presence>;

Present wait_for_ranks(Store& store, int size, const Deadline& arrival) {
  Present all;
  while (static_cast<int>(all.size()) < size) {
    for (int rank = 0; rank < size; ++rank) {
      if (all.contains(rank) || !store.has(key_of(rank, "here"), arrival)) continue;
      if (auto one = presence_of(store.get(key_of(rank, "here"), arrival))) all[rank] = *one;
    }
    if (arrival.passed()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return all;
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
Outcome conclude_from(Store& store, const UnmetRank& me, const Present& all,
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
          from_text(store.get(key_of(rank, "snapshot"), deadline), fmt::format("rank {}", rank));
      host.host = names[i];
      texts[i] = store.get(key_of(rank, "failures"), deadline);
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

}  // namespace

Outcome gather_over_store(Store& store, const UnmetRank& me, const Options& options) {
  const AddressChoice chosen = choose_local_address(options, store.master_address(), true);
  const auto listener = listen(identity_of(me), chosen.host, options);
  const Presence own{host_token(), options.host_id.empty() ? host_name() : options.host_id,
                     to_string(listener->addresses())};
  store.set(key_of(me.rank, "here"), to_text(own));
  const Present all = wait_for_ranks(store, me.size, me.arrival);
  const auto leaders = leaders_of(all);
  if (std::ranges::find(leaders, me.rank) != leaders.end()) {
    store.set(key_of(me.rank, "snapshot"), bounded_text(me.look()));
    store.set(key_of(me.rank, "failures"), dial_all(me, own, all, leaders));
  }
  if (me.rank != 0) {
    // The listener stays until nobody dials it any more.
    store.get(kDone, Deadline::after(2 * (kAnswer + dialling_time(leaders))));
    store.set(key_of(me.rank, "left"), "1");
    return {};
  }
  Outcome outcome = conclude_from(store, me, all, leaders);
  store.set(kDone, "1");
  const Deadline leaving = Deadline::after(kDial);
  for (const auto& [rank, one] : all)
    while (rank != 0 && !store.has(key_of(rank, "left"), leaving) && !leaving.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return outcome;
}

}  // namespace ringwood::tools::doctor
