#include "tools/simulation/waves.h"

#include <algorithm>
#include <utility>

#include "tools/simulation/flow_delays.h"
#include "tools/simulation/thread_delays.h"

namespace ringwood {
namespace {

// What happens on host 0, step by step, where nothing is wrong.
class Course {
 protected:
  Course(const HostTraffic& host, const HostRun& run)
      : traffic_(host.traffic), recording_(run.recording) {}

  bool far(const JobRecord& job) const {
    const bool is_flow = job.kind == JobKind::body || job.kind == JobKind::alone;
    return is_flow && price(job.index).between_hosts;
  }
  double middle_of(int32_t job) const {
    return (recording_.jobs[job].began + recording_.jobs[job].ended) / 2;
  }
  std::vector<int32_t> by_middle() const {
    std::vector<int32_t> flows;
    for (size_t i = 0; i < recording_.jobs.size(); ++i)
      if (far(recording_.jobs[i])) flows.push_back(static_cast<int32_t>(i));
    std::stable_sort(flows.begin(), flows.end(),
                     [&](int32_t a, int32_t b) { return middle_of(a) < middle_of(b); });
    return flows;
  }
  const TrafficMessage& ends(int32_t m) const { return traffic_.messages[m]; }
  const CostMessage& price(int32_t m) const { return traffic_.prices[ends(m).price]; }
  int far_host(int32_t m) const { return traffic_.far_hosts[m]; }
  // Of a flow, on the network at its full rate.
  double seconds_of(int32_t m) const { return (price(m).bytes - price(m).head) * price(m).network; }

  // In large groups a delay is forgotten for a step that begins so much later in the recording that
  // it matters little: else all of them would be kept, of most messages for half of the run.
  void forget_old() {
    constexpr double kPart = 0.02;
    patience_ = kPart * recording_.jobs.back().ended;
    begins_.assign(traffic_.items.size(), 0);
    for (const JobRecord& job : recording_.jobs) {
      const bool sends = job.kind == JobKind::head || job.kind == JobKind::encoding;
      const bool receives = job.kind == JobKind::body || job.kind == JobKind::tail;
      if (sends) begin_of(ends(job.index).from, ends(job.index).send_step) = job.began;
      if (receives) begin_of(ends(job.index).to, ends(job.index).recv_step) = job.began;
      if (job.kind == JobKind::local) begin_of(job.rank, job.index) = job.began;
    }
  }
  double& begin_of(int rank, int32_t step) {
    return begins_[traffic_.ranks[rank].first_item + static_cast<uint32_t>(step)];
  }
  bool forgets(int rank, int32_t step, double now) {
    return !begins_.empty() && begin_of(rank, step) > now + patience_;
  }

  const Traffic& traffic_;
  const Recording& recording_;

 private:
  std::vector<double> begins_;  // by step; empty: nothing is forgotten
  double patience_ = 0;
};

class Waves : private Course {
 public:
  Waves(const HostTraffic& host, const HostRun& run, const Network& network,
        const WavesRequest& request)
      : Course(host, run),
        host_(host),
        request_(request),
        moves_(host.symmetry),
        threads_(host.symmetry, request.faults ? *request.faults : Faults{}, traffic_.agreed),
        flows_(host.traffic, host.symmetry, network),
        hosts_(static_cast<size_t>(host.symmetry.hosts())),
        ready_(traffic_.items.size()),
        running_(traffic_.ranks.size()),
        messages_(traffic_.messages.size()),
        finish_(traffic_.ranks.size(), std::vector<double>(hosts_, 0)),
        last_(traffic_.ranks.size(), 0) {}

  Outcome run() {
    constexpr double kMaxBytes = 1 << 30;
    const double bytes = static_cast<double>(messages_.size() * hosts_ * sizeof(float));
    if (bytes > kMaxBytes) forget_old();
    for (size_t r = 0; r < running_.size(); ++r) begin_rank(static_cast<int>(r));
    constexpr size_t kTellEach = 1 << 14;
    const std::vector<int32_t> middles = flows_.counts() ? by_middle() : std::vector<int32_t>();
    const std::vector<int32_t>& order = recording_.order;
    size_t middle = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (request_.progress && i % kTellEach == 0)
        request_.progress(static_cast<double>(i) / static_cast<double>(order.size()));
      const JobRecord& job = recording_.jobs[order[i] >= 0 ? order[i] : -1 - order[i]];
      const double now = order[i] >= 0 ? job.began : job.ended;
      for (; middle < middles.size() && middle_of(middles[middle]) < now; ++middle)
        measure(recording_.jobs[middles[middle]]);
      order[i] >= 0 ? begin(job) : end(job);
    }
    return outcome();
  }

 private:
  // Delays are by the sender's host until the receiver's part begins.
  struct Moving {
    Delay delay, send_turn, recv_turn;
    bool joint = false;  // the receiver took part in what the sender did
  };

  // ---- what waits, and for what

  void begin_rank(int rank) {
    const std::vector<int32_t>& waits = traffic_.shape(rank).graph.predecessors;
    for (size_t step = 0; step < waits.size(); ++step)
      if (waits[step] == 0) ready(rank, static_cast<int32_t>(step)) = threads_.call(rank);
    over(rank, threads_.call(rank), 0);
  }

  Delay& ready(int rank, int32_t step) {
    return ready_[traffic_.ranks[rank].first_item + static_cast<uint32_t>(step)];
  }
  // By the receiver's host.
  Delay receivable(int32_t m, double now) {
    const Delay own = later(ready(ends(m).to, ends(m).recv_step), messages_[m].recv_turn, now);
    return later(own, threads_.agreed(), now);
  }

  void begin(const JobRecord& job) {
    const double now = job.began;
    const int32_t i = job.index;
    const auto run = [&](Delay waits) { running_[job.rank] = std::move(waits); };
    switch (job.kind) {
      case JobKind::agreeing: return run(threads_.call(job.rank));
      case JobKind::own_block: return run(later(threads_.call(job.rank), threads_.agreed(), now));
      case JobKind::local: return run(later(ready(job.rank, i), threads_.agreed(), now));
      case JobKind::encoding: return run(ready(job.rank, ends(i).send_step));
      case JobKind::head:
        return run(later(ready(job.rank, ends(i).send_step), messages_[i].send_turn, now));
      case JobKind::tail: return run(begin_tail(i, now));
      case JobKind::body: begin_body(i, now); break;
      case JobKind::alone: break;
    }
    if (far(job)) flows_.enter(job, seconds_of(i));
  }

  // What the link takes ahead need not wait for the receiver.
  void begin_body(int32_t m, double now) {
    Moving& s = messages_[m];
    s.joint = true;
    if (price(m).bytes > price(m).eager)
      s.delay = later(s.delay, moves_.to_senders(receivable(m, now), far_host(m)), now);
  }

  Delay begin_tail(int32_t m, double now) {
    const CostMessage& p = price(m);
    Moving& s = messages_[m];
    s.delay = moves_.to_receivers(s.delay, far_host(m));
    const Delay own = receivable(m, now);
    const auto alone = static_cast<float>((p.bytes - p.head) * p.in.core);
    if (!s.joint || alone <= 0 || p.bytes > p.eager || own.gone(now))
      return later(s.delay, own, now);
    // A receiver that comes later than the bytes reads all of them itself.
    auto both = changeable(own, now, hosts_);
    const auto arrived = changeable(s.delay, now, hosts_);
    for (size_t h = 0; h < hosts_; ++h) {
      const float waits = both->of[h] - arrived->of[h];
      both->of[h] = std::max(both->of[h], arrived->of[h]) + std::clamp(waits, 0.0F, alone);
    }
    return seal(std::move(both), now);
  }

  // ---- what is over

  void end(const JobRecord& job) {
    const int32_t i = job.index;
    if (job.kind == JobKind::body || job.kind == JobKind::alone) return end_flow(job);
    const Delay delay = threads_.end(job, running_[job.rank]);
    switch (job.kind) {
      case JobKind::agreeing: break;
      case JobKind::own_block: over(job.rank, delay, job.ended); break;
      case JobKind::local: done(job.rank, i, delay, job.ended); break;
      case JobKind::encoding: ready(job.rank, ends(i).send_step) = delay; break;
      case JobKind::tail: received(i, delay, job.ended); break;
      default:
        messages_[i].delay = delay;
        if (price(i).bytes == price(i).head || price(i).in_place) sent(i, job.ended);
    }
  }

  void measure(const JobRecord& flow) {
    Delay& delay = messages_[flow.index].delay;
    delay = flows_.catch_up(flow, seconds_of(flow.index), delay);
    auto delays = changeable(delay, flow.began, hosts_);
    flows_.measure(flow, seconds_of(flow.index), *delays);
    delay = seal(std::move(delays), flow.began);
  }

  void end_flow(const JobRecord& flow) {
    const int32_t m = flow.index;
    Delay& delay = messages_[m].delay;
    const bool network = far(flow) && flows_.delays(flow);
    if (far(flow)) flows_.leave(flow);
    if (far(flow) && !flows_.counts()) delay = flows_.catch_up(flow, seconds_of(m), delay);
    delay = after(delay, flow.ended - flow.began);
    if (network || threads_.slows(ends(m).from, ends(m).to)) {
      auto delays = changeable(delay, flow.ended, hosts_);
      if (network) flows_.end(flow, seconds_of(m), *delays);
      const CostMessage& p = price(m);
      const double bytes = p.bytes - p.head;
      const bool both = flow.kind == JobKind::body;
      threads_.end_flow(flow, {ends(m).from, bytes * p.out.core},
                        {ends(m).to, both ? bytes * p.in.core : 0}, far_host(m), *delays);
      delay = seal(std::move(delays), flow.ended);
    }
    sent(m, flow.ended);
  }

  // The sender's part is over.
  void sent(int32_t m, double now) {
    const Delay delay = messages_[m].delay;
    messages_[m].delay =
        after(flows_.add_latency(far_host(m), host_.far_latency, delay, now), price(m).latency);
    if (!price(m).in_place) leave(m, delay, now);
  }

  void leave(int32_t m, const Delay& delay, double now) {
    const int32_t next = ends(m).next;
    if (next >= 0 && !forgets(ends(next).from, ends(next).send_step, now))
      messages_[next].send_turn = delay;
    done(ends(m).from, ends(m).send_step, delay, now);
    messages_[m].send_turn = {};
  }

  void received(int32_t m, const Delay& delay, double now) {
    const int32_t next = ends(m).next;
    if (next >= 0 && !forgets(ends(next).to, ends(next).recv_step, now))
      messages_[next].recv_turn = delay;
    messages_[m].delay = messages_[m].recv_turn = {};
    done(ends(m).to, ends(m).recv_step, delay, now);
    if (price(m).in_place) leave(m, delay, now);
  }

  void done(int rank, int32_t step, const Delay& delay, double now) {
    const Graph& graph = traffic_.shape(rank).graph;
    for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k) {
      if (forgets(rank, graph.successor[k], now)) continue;
      Delay& waits = ready(rank, graph.successor[k]);
      waits = later(waits, delay, now);
    }
    ready(rank, step) = {};
    if (graph.offset[step] == graph.offset[step + 1]) over(rank, delay, now);
  }

  // The rank is not finished before.
  void over(int rank, const Delay& delay, double now) {
    last_[rank] = std::max(last_[rank], now);
    if (delay.gone(now)) return;
    for (size_t h = 0; h < hosts_; ++h)
      finish_[rank][h] =
          std::max(finish_[rank][h], delay.at + static_cast<double>(delay.by_host->of[h]));
  }

  Outcome outcome() {
    Outcome outcome;
    const Delay& agreed = threads_.agreed();
    const double late = agreed.by_host ? static_cast<double>(agreed.by_host->most) : 0;
    outcome.finish.resize(hosts_ * running_.size());
    for (size_t h = 0; h < hosts_; ++h)
      for (size_t r = 0; r < running_.size(); ++r) {
        double& finish = outcome.finish[host_.symmetry.ranks_of(static_cast<int>(h))[r]];
        finish = std::max({finish_[r][h], last_[r], traffic_.agreed + late});
        outcome.seconds = std::max(outcome.seconds, finish);
      }
    outcome.links = flows_.busiest();
    return outcome;
  }

  const HostTraffic& host_;
  const WavesRequest& request_;
  const HostMoves moves_;
  ThreadDelays threads_;
  FlowDelays flows_;
  const size_t hosts_;
  std::vector<Delay> ready_;    // by step, as Traffic::items: of what it waits for
  std::vector<Delay> running_;  // by rank: of the job of its thread
  std::vector<Moving> messages_;
  std::vector<std::vector<double>> finish_;  // by rank and host, where there is a delay
  std::vector<double> last_;                 // by rank, in the recording
};

}  // namespace

Outcome run_waves(const HostTraffic& traffic, const HostRun& run, const Network& network,
                  const WavesRequest& request) {
  Outcome outcome = Waves(traffic, run, network, request).run();
  outcome.busiest = run.outcome.busiest;
  if (!outcome.links.empty())
    outcome.busiest.add(network.kind(outcome.links[0].link), outcome.links[0].busy);
  return outcome;
}

}  // namespace ringwood
