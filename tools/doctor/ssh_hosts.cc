#include "tools/doctor/ssh_hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "tools/doctor/relay.h"
#include "tools/remote/host_list.h"
#include "tools/remote/remote_commands.h"
#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/options.h"
#include "transports/bootstrap/net.h"

namespace ringwood::tools::doctor {
namespace {

// Of the limit of a host, that the ranks of a probe get, which notice by themselves who is missing.
constexpr int kProbeTimes = 10;
// What rank 0 says has the rates of all pairs; the others have said all when it has.
constexpr size_t kMaxProbe = size_t{256} << 20;
constexpr std::chrono::seconds kLeave{5};

// Of those that RINGWOOD_PORT_RANGE allows. Somebody else may take it before it is used: then the
// probe says so.
int free_port() {
  try {
    const Options options = Options::from_environment();
    Identity nobody;
    return listen(nobody, "0.0.0.0", options)->address().port;
  } catch (const Error&) {
    return 0;
  }
}

// What steers communication here does so there; a host's own name for itself stays.
std::vector<std::string> carried_variables() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    if ((name.starts_with("RINGWOOD_") || name.starts_with("NCCL_")) && name != "RINGWOOD_HOST_ID")
      all.emplace_back(variable);
  }
  return all;
}

constexpr int kNotAll = 3;  // of a rank that met others, and then not all of them

struct Answer {
  std::string word;  // of the list
  Relay relay;
};

class SshRun final {
 public:
  SshRun(const Examination& what, const SshHosts& hosts,
         const std::function<void(const std::string&)>& progress)
      : what_(what), hosts_(hosts), progress_(progress) {}

  Outcome look() {
    Outcome outcome;
    std::vector<RemoteCommand> commands;
    for (const std::string& host : hosts_.hosts)
      commands.push_back({host, words({}, what_.probe ? 0 : what_.watch_s)});
    const auto answers =
        run_remotely(commands, options(1), shown(hosts_.hosts.size(), "hosts have answered"));
    const double reference_s = unix_time_s();
    for (size_t i = 0; i < answers.size(); ++i) take(hosts_.hosts[i], answers[i], reference_s);
    tell_same_names_apart();
    for (const Answer& one : answers_) outcome.hosts.push_back(one.relay.outcome.hosts[0]);
    outcome.complete = !failed_;
    outcome.probe.not_checked = missed_;
    return outcome;
  }

  // Puts what the job finds in the place of what was known before.
  void probe(Outcome& outcome) {
    std::vector<RemoteCommand> commands;
    const std::string address = address_of_first();
    for (size_t rank = 0; rank < answers_.size(); ++rank)
      commands.push_back({answers_[rank].word, words_of_rank(rank, address)});
    RemoteOptions together = options(kProbeTimes);
    together.at_once = commands.size();
    together.max_output = kMaxProbe;
    together.after_first = kLeave;
    const auto answers =
        run_remotely(commands, together, shown(commands.size(), "ranks have ended"));
    std::string why = answers[0].failure;
    if (why.empty()) try {
        Outcome probed = relay_from_text(answers[0].output, answers_[0].word).outcome;
        outcome.complete = outcome.complete && probed.complete;
        // Where the ranks have not met, more is known of the hosts from before.
        if (probed.probe.matrix) outcome.hosts = std::move(probed.hosts);
        outcome.probe = std::move(probed.probe);
        if (!outcome.probe.matrix) explain_absence(answers, outcome);
      } catch (const Error& error) {
        why = error.cause;
      }
    if (!why.empty()) {
      outcome.probe.not_checked.push_back(
          {"probe", fmt::format("rank 0: {}", why), answers_[0].word, rules_of_probe()});
      outcome.complete = false;
      return;
    }
    outcome.probe.not_checked.insert(outcome.probe.not_checked.end(), missed_.begin(),
                                     missed_.end());
  }

 private:
  RemoteOptions options(int times) const {
    RemoteOptions remote;
    remote.ssh = hosts_.ssh;
    remote.limit = hosts_.limit * times +
                   std::chrono::milliseconds(static_cast<int64_t>(1000 * what_.watch_s));
    return remote;
  }

  std::function<void(size_t)> shown(size_t all, const char* what) const {
    if (!progress_) return {};
    progress_(fmt::format("0 of {} {}", all, what));
    return [this, all, what](size_t ended) {
      progress_(fmt::format("{} of {} {}", ended, all, what));
    };
  }

  std::vector<std::string> words(std::vector<std::string> variables, double watch_s) const {
    std::vector<std::string> all{"env"};
    for (const auto& some : {carried_variables(), std::move(variables)})
      all.insert(all.end(), some.begin(), some.end());
    all.insert(all.end(), {hosts_.command, "doctor", "--relay"});
    if (watch_s > 0) all.insert(all.end(), {"--watch", fmt::format("{}", watch_s)});
    return all;
  }

  std::vector<std::string> words_of_rank(size_t rank, const std::string& address) const {
    std::vector<std::string> variables = {
        fmt::format("RANK={}", rank),
        fmt::format("WORLD_SIZE={}", answers_.size()),
        "LOCAL_RANK=0",
        "LOCAL_WORLD_SIZE=1",
        "MASTER_ADDR=" + address,
        fmt::format("MASTER_PORT={}", answers_[0].relay.free_port)};
    if (named_) variables.push_back("RINGWOOD_HOST_ID=" + without_user(answers_[rank].word));
    auto all = words(std::move(variables), what_.watch_s);
    all.insert(all.end(), {"--probe", "--rendezvous", "env://", "--timeout",
                           fmt::format("{}", seconds_in(hosts_.limit))});
    return all;
  }

  // The one that it offers to others: "10.0.0.1 (eth0: ...)".
  std::string address_of_first() const {
    const std::string& chosen = answers_[0].relay.outcome.hosts[0].system.chosen_address;
    return chosen.empty() ? without_user(answers_[0].word) : chosen.substr(0, chosen.find(' '));
  }

  // Of a probe that did not come about: hosts that did not reach the first one, and ranks that
  // failed by themselves. Comparisons have been made, of what was known before.
  void explain_absence(const std::vector<RemoteAnswer>& answers, Outcome& outcome) const {
    for (NotChecked& one : outcome.probe.not_checked) {
      if (one.what != "hosts") continue;
      one.what = "probe";
      one.rules = rules_of_probe();
    }
    std::vector<std::string> names;
    for (const Answer& one : answers_) names.push_back(one.relay.outcome.hosts[0].host);
    FailedPairs pairs;
    for (size_t i = 1; i < answers.size(); ++i) {
      const RemoteAnswer& answer = answers[i];
      if (answer.exit_code == kCannotMeet)
        pairs[{0, static_cast<int>(i)}] = fmt::format("from {}: {}", names[i], answer.said);
      else if (answer.exit_code != kNotAll && !answer.failure.empty())
        outcome.probe.not_checked.push_back(
            {"probe", fmt::format("rank {}: {}", i, answer.failure), names[i], rules_of_probe()});
    }
    for (Finding& one : name_pairs("hosts-unreachable", std::move(pairs), names))
      outcome.probe.findings.push_back(one);
  }

  void miss(const std::string& word, const std::string& why) {
    NotChecked missed{"host", why, without_user(word), {}};
    for (const Rule& rule : rules())
      if (rule.look != nullptr) missed.rules.emplace_back(rule.id);
    missed_.push_back(missed);
  }

  void fail(const std::string& word, const std::string& why) {
    failed_ = true;
    miss(word, why);
  }

  void take(const std::string& word, const RemoteAnswer& answer, double reference_s) {
    if (!answer.failure.empty()) return fail(word, answer.failure);
    try {
      Answer one{word, relay_from_text(answer.output, word)};
      if (one.relay.outcome.hosts.size() != 1) return fail(word, "it told of no host");
      Snapshot& host = one.relay.outcome.hosts[0];
      for (const Answer& other : answers_)
        if (other.relay.outcome.hosts[0].token == host.token)
          return miss(word, fmt::format("it is {} once more", other.word));
      // What its clock would show now, if its words took no time.
      host.system.clock_s = reference_s + (one.relay.clock_s - answer.ended_s);
      answers_.push_back(std::move(one));
    } catch (const Error& error) {
      fail(word, error.cause);
    }
  }

  void tell_same_names_apart() {
    std::map<std::string, int> times;
    for (const Answer& one : answers_) ++times[one.relay.outcome.hosts[0].host];
    named_ = std::ranges::any_of(times, [](const auto& name) { return name.second > 1; });
    if (!named_) return;
    for (Answer& one : answers_) one.relay.outcome.hosts[0].host = without_user(one.word);
  }

  const Examination& what_;
  const SshHosts& hosts_;
  const std::function<void(const std::string&)>& progress_;
  std::vector<Answer> answers_;
  std::vector<NotChecked> missed_;
  bool named_ = false;   // hosts are called as in the list, because some have one name
  bool failed_ = false;  // a host did not answer
};

}  // namespace

Outcome examine_by_ssh(const Examination& what, const SshHosts& hosts,
                       const std::function<void(const std::string&)>& progress) {
  SshRun run(what, hosts, progress);
  Outcome outcome = run.look();
  if (what.probe && !outcome.hosts.empty()) run.probe(outcome);
  return outcome;
}

void print_relay(const Outcome& outcome) {
  Relay relay{outcome, unix_time_s(), free_port()};
  fmt::print("{}", to_text(relay));
}

}  // namespace ringwood::tools::doctor
