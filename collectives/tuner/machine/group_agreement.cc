#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/tuner/machine/calibrate.h"
#include "collectives/tuner/machine/group_model.h"
#include "collectives/tuner/machine/network_facts.h"
#include "collectives/tuner/machine/port_prior.h"
#include "collectives/tuner/machine/probe.h"
#include "collectives/tuner/machine/probe_results.h"
#include "collectives/tuner/machine/rail_leaders.h"
#include "collectives/tuner/machine/topology.h"
#include "transports/base/error.h"
#include "transports/base/host.h"
#include "transports/base/knobs/knobs.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

// A latency that differs by less says nothing about the network.
constexpr double kLatencySlack = 5e-6, kLatencyTimes = 2;

using RailLeaders = std::vector<std::vector<int>>;  // by rail and host

bool leads(const RailLeaders& leaders, int rank) {
  return std::ranges::any_of(
      leaders, [&](const std::vector<int>& of) { return std::ranges::count(of, rank) > 0; });
}

// Whether a message between hosts takes the rail of a rank's address. Over verbs a link has pieces
// on all rails.
bool over_sockets(const Mesh& mesh) {
  for (int r = 0; r < mesh.size; ++r)
    if (mesh.host_numbers[r] != mesh.host_numbers[mesh.rank] && mesh.peers[r].transport != "tcp")
      return false;
  return true;
}

PathClass carrier_of(const Mesh& mesh) {
  for (int r = 0; r < mesh.size; ++r)
    if (mesh.host_numbers[r] != mesh.host_numbers[mesh.rank] && mesh.peers[r].transport != "verbs")
      return PathClass::socket;
  return PathClass::rdma;
}

HostFacts own_facts(const Mesh& mesh, const Options& options) {
  return {options.host_id.empty() ? host_name() : options.host_id,
          host_facts(mesh.transports_in_use()), print(host_parameters(options)), cores_token()};
}

template <class Message>
Message received(LinkTalk& talk, int rank, bool patient = false) {
  Message message;
  if (decode(talk.receive_text(rank, kMaxModelText + 3 * kMaxFacts, patient), message))
    return message;
  Error e(ErrorCode::internal,
          fmt::format("measuring the network: rank {} sent what is no message", rank));
  e.peer = rank;
  throw e;
}

double checked(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

// Rank 0's part.
class Leader final {
 public:
  // `again`: whatever is known, and what is wrong for now is not kept.
  Leader(LinkTalk& talk, Mesh& mesh, const Options& options, bool again, const RailLeaders& leaders)
      : talk_(talk),
        mesh_(mesh),
        use_(again ? CalibrationUse::refresh : calibration_use(options.calibration)),
        again_(again),
        verbs_(options.verbs),
        rails_(leaders),
        leaders_(leaders.front()) {
    gather(options);
  }

  std::string agree() {
    if (use_ != CalibrationUse::off) set_network();
    use_rings(machine_, verbs_);
    ProbeStep end;
    end.parameters = print(machine_);
    for (const std::vector<int>& leaders : rails_)
      for (const int rank : leaders)
        if (rank != mesh_.rank) talk_.send_text(rank, encode(end));
    return end.parameters;
  }

 private:
  void gather(const Options& options) {
    std::vector<MachineModel> machines;
    std::vector<HostFacts> hosts;
    std::vector<std::string> cores;
    for (const int rank : leaders_) {
      hosts.push_back(rank == mesh_.rank ? own_facts(mesh_, options)
                                         : received<HostFacts>(talk_, rank, true));
      machines.push_back(parse_machine_model(hosts.back().parameters));
      names_.push_back(hosts.back().name);
      cores.push_back(hosts.back().cores);
    }
    machine_ = median_of(machines);
    if (carrier_of(mesh_) == PathClass::rdma) {
      use_rdma_prior(machine_);
      machine_.net.rails = striped_rails(mesh_);
    }
    machine_.net.sharing = hosts_sharing(cores);
    sleeps_ = options.spin_us == 0;
    if (again_) {
      const NetworkParameters told = parse_machine_model(mesh_.announcement).net;
      machine_.net.leaves = told.leaves;
      machine_.net.rails = told.rails;
    } else if (!options.topology.empty()) {
      int named = 1;
      machine_.net.leaves = leaves_of(options.topology, names_, named);
      if (named > 1) machine_.net.rails = named;
    }
    title_ = network_title(hosts, rails_.size(), options);
  }

  std::vector<ProbeReport> carry_out(ProbeStage stage, size_t rail = 0,
                                     const std::vector<ProbeReport>& alone = {}) {
    const std::vector<int>& leaders = rails_[rail];
    const std::vector<ProbeStep> steps = probe_steps(stage, leaders, machine_.net.leaves, alone);
    std::vector<ProbeReport> reports(steps.size());
    for (size_t h = 0; h < steps.size(); ++h)
      if (leaders[h] != mesh_.rank) talk_.send_text(leaders[h], encode(steps[h]));
    for (size_t h = 0; h < steps.size(); ++h)
      if (leaders[h] == mesh_.rank) reports[h] = probe_.carry_out(steps[h]);
    for (size_t h = 0; h < steps.size(); ++h) {
      if (leaders[h] == mesh_.rank) continue;
      auto report = received<ProbeReport>(talk_, leaders[h]);
      for (double* value : {&report.latency, &report.rate, &report.post, &report.byte,
                            &report.streamed, &report.burst})
        *value = checked(*value);
      reports[h] = report;
    }
    for (ProbeReport& report : reports) report.rate = possible_rate(report.rate, machine_);
    return reports;
  }

  ProbeResults measured(ProbeResults results) {
    results.alone = carry_out(ProbeStage::alone);
    if (median_rate(results.alone) <= 0) results.alone = carry_out(ProbeStage::alone);
    results.near = carry_out(ProbeStage::near, 0, results.alone);
    // Interruptions only ever add, and everything later is compared with these.
    auto again = carry_out(ProbeStage::near, 0, results.alone);
    if (median_rate(again) > median_rate(results.near)) results.near = std::move(again);
    results.busy = carry_out(ProbeStage::busy, 0, results.near);
    const bool far = leaders_.size() > 2;
    if (far) results.far = carry_out(ProbeStage::far, 0, results.alone);
    for (size_t rail = 1; rail < rails_.size() && over_sockets(mesh_); ++rail) {
      carry_out(ProbeStage::ping, rail);
      ProbeResults::Rail& found = results.rails.emplace_back();
      found.near = carry_out(ProbeStage::near, rail, results.alone);
      if (far) found.far = carry_out(ProbeStage::far, rail, results.alone);
    }
    return results;
  }

  void set_network() {
    const std::string directory = cache_directory();
    const auto known = known_network(use_ == CalibrationUse::keep ? directory : "", title_);
    const auto begin = Clock::now();
    ProbeResults results;
    results.ping = carry_out(ProbeStage::ping);
    const auto exceptions = known ? exceptions_among(known->net.exceptions, names_) : std::nullopt;
    if (exceptions && !again_ && known->net.carrier == machine_.net.carrier &&
        as_known(median_latency(results.ping), *known)) {
      const NetworkParameters told = machine_.net;  // by the file of the topology
      machine_.net = known->net;
      machine_.net.leaves = told.leaves;
      if (!machine_.net.rail_of_rank) machine_.net.rails = told.rails;
      machine_.net.exceptions = *exceptions;
      return tell("as measured before", begin);
    }
    results = measured(std::move(results));
    if (median_rate(results.alone) <= 0) return use_prior(results, begin);
    use_results(machine_, results, names_, sleeps_);
    if (!again_ || machine_.net.exceptions.empty()) keep_network(directory, title_, machine_);
    tell("measured", begin);
    warn();
  }

  // Nothing that was measured is possible: the next group measures anew.
  void use_prior(const ProbeResults& results, Clock::time_point begin) {
    if (again_) {
      machine_.net = parse_machine_model(mesh_.announcement).net;
      return tell("as at first, since the rates measured now were impossible,", begin);
    }
    const auto prior = port_prior();
    if (prior) machine_.net.nic = prior->rate;
    use_results(machine_, results, names_, sleeps_);
    tell(prior ? "with rates of the ports, since those measured were impossible,"
               : "with default rates, since those measured were impossible,",
         begin);
  }

  bool as_known(double latency, const MachineModel& known) const {
    const double before = ping_of(known, sleeps_);
    return std::abs(latency - before) <= kLatencySlack ||
           (latency <= kLatencyTimes * before && before <= kLatencyTimes * latency);
  }

  void tell(const char* how, Clock::time_point begin) const {
    const NetworkParameters& net = machine_.net;
    const auto show = [](const PathParameters& path) {
      return fmt::format("{:.1f} us, {:.3f} Gbit/s, {:.2f} of it both ways", path.latency * 1e6,
                         path.rate * 8e-9, path.both_ways);
    };
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    log(LogLevel::info, "network",
        fmt::format("{} hosts, {} in {:.1f} ms: {}{}{}", names_.size(), how, ms,
                    show({net.latency, net.nic, net.both_ways}),
                    net.rails > 1 ? fmt::format(", {} rails", net.rails) : "",
                    net.far ? "; far: " + show(*net.far) : ""));
  }

  void warn() const {
    std::vector<std::string> slow;
    for (const HostException& one : machine_.net.exceptions)
      if (one.rate < 0.5) slow.push_back(fmt::format("{} at {:.0f} %", print(one), one.rate * 100));
    if (slow.empty()) return;
    log(LogLevel::warn, "network",
        fmt::format(
            "slower than half of the other hosts' {:.3f} Gbit/s: {}: look at the cable, the "
            "port and what else uses it",
            machine_.net.nic / port_count(machine_.net) * 8e-9, fmt::join(slow, ", ")));
  }

  LinkTalk& talk_;
  Mesh& mesh_;
  const CalibrationUse use_;
  const bool again_;
  const VerbsOptions& verbs_;
  const RailLeaders& rails_;
  const std::vector<int>& leaders_;  // of the first rail, which are the first ranks of the hosts
  Probe probe_{talk_, mesh_};
  MachineModel machine_;
  bool sleeps_ = false;  // the group's ranks do in their waits
  std::vector<std::string> names_;
  std::string title_;
};

// The first rank of another host, or of a rail. The latter waits long, while others measure.
std::string follow(LinkTalk& talk, const Mesh& mesh, const Options& options, bool first) {
  if (first) talk.send_text(0, encode(own_facts(mesh, options)));
  Probe probe(talk, mesh);
  while (true) {
    auto step = received<ProbeStep>(talk, 0, !first);
    if (step.stage == ProbeStage::end) return std::move(step.parameters);
    talk.send_text(0, encode(probe.carry_out(step)));
  }
}

// The parameters' text, on all ranks.
std::string agree(LinkTalk& talk, Mesh& mesh, const Options& options, bool again) {
  const RailLeaders leaders = rail_leaders(mesh.host_numbers, mesh.addresses);
  const int first = leaders[0][mesh.host_numbers[mesh.rank]];
  if (!leads(leaders, mesh.rank)) return talk.receive_text(first, kMaxModelText, true);
  std::string text = mesh.rank == 0 ? Leader(talk, mesh, options, again, leaders).agree()
                                    : follow(talk, mesh, options, mesh.rank == first);
  if (mesh.rank != first) return text;
  std::vector<int> others;
  for (int r = 0; r < mesh.size; ++r)
    if (mesh.host_numbers[r] == mesh.host_numbers[mesh.rank] && !leads(leaders, r))
      others.push_back(r);
  talk.send_texts(others, text);
  return text;
}

}  // namespace

void agree_on_parameters(Mesh& mesh, const Options& options) {
  if (!mesh.several_hosts) return;
  LinkTalk talk(mesh, Deadline::after(options.init_timeout), options.spin_us == 0);
  mesh.announcement = agree(talk, mesh, options, false);
}

NetworkParameters measure_again(Mesh& mesh, const Options& options, int channel) {
  LinkTalk talk(mesh, Deadline::after(options.timeout), false, channel);
  return parse_machine_model(agree(talk, mesh, options, true)).net;
}

}  // namespace ringwood
