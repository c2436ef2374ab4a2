#include "tools/doctor/ssh_hosts.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
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
#include "transports/base/owned_fd.h"

namespace ringwood::tools::doctor {
namespace {

// Of the limit of a host, that the ranks of a probe get, which notice by themselves who is missing.
constexpr int kProbeTimes = 10;

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Somebody else may take it before it is used: then the probe says so.
int free_port() {
  const OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), any, size) != 0 ||
      ::getsockname(socket.get(), any, &size) != 0)
    return 0;
  return ntohs(address.sin_port);
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
    const auto answers = run_remotely(commands, options(1), shown("hosts have answered"));
    const double reference_s = now_s();
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
    const auto answers = run_remotely(commands, together, shown("ranks have ended"));
    std::string why = answers[0].failure;
    if (why.empty()) try {
        Outcome probed = relay_from_text(answers[0].output, answers_[0].word).outcome;
        outcome.complete = outcome.complete && probed.complete;
        // Where the ranks have not met, more is known of the hosts from before.
        if (probed.probe.matrix) outcome.hosts = std::move(probed.hosts);
        outcome.probe = std::move(probed.probe);
        add_unreachable(answers, outcome);
      } catch (const Error& error) {
        why = error.cause;
      }
    if (!why.empty()) {
      NotChecked missed{"probe", fmt::format("{}: {}", answers_[0].word, why), "", {}};
      for (const Rule& rule : probe_rules()) missed.rules.emplace_back(rule.id);
      outcome.probe.not_checked.push_back(missed);
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

  std::function<void(size_t)> shown(const char* what) const {
    if (!progress_) return {};
    progress_(fmt::format("0 of {} {}", hosts_.hosts.size(), what));
    return [this, what](size_t ended) {
      progress_(fmt::format("{} of {} {}", ended, hosts_.hosts.size(), what));
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

  // Those that did not reach the first host.
  void add_unreachable(const std::vector<RemoteAnswer>& answers, Outcome& outcome) const {
    std::vector<std::string> names;
    for (const Answer& one : answers_) names.push_back(one.relay.outcome.hosts[0].host);
    FailedPairs pairs;
    for (size_t i = 1; i < answers.size(); ++i)
      if (answers[i].exit_code == kCannotMeet)
        pairs[{0, static_cast<int>(i)}] = fmt::format("from {}: {}", names[i], answers[i].said);
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
  Relay relay{outcome, now_s(), free_port()};
  fmt::print("{}", to_text(relay));
}

}  // namespace ringwood::tools::doctor
