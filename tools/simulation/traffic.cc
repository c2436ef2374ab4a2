#include "tools/simulation/traffic.h"

#include <algorithm>
#include <array>
#include <future>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "collectives/tuner/cost/cost_prices.h"
#include "transports/base/error.h"

namespace ringwood {
namespace {

uint64_t hash_of(const void* data, size_t bytes) {
  return std::hash<std::string_view>()({static_cast<const char*>(data), bytes});
}
template <class T>
uint64_t hash_of(const std::vector<T>& values) {
  return hash_of(values.data(), values.size() * sizeof(T));
}

// Gives equal values one number.
template <class T, class Hash, class Equal>
class Numbers {
 public:
  explicit Numbers(std::vector<T>& values) : values_(values) {}
  int32_t of(T value) {
    const uint64_t hash = Hash()(value);
    for (auto [at, end] = known_.equal_range(hash); at != end; ++at)
      if (Equal()(values_[at->second], value)) return at->second;
    values_.push_back(std::move(value));
    const auto number = static_cast<int32_t>(values_.size()) - 1;
    known_.emplace(hash, number);
    return number;
  }

 private:
  std::vector<T>& values_;
  std::unordered_multimap<uint64_t, int32_t> known_;
};

struct ShapeHash {
  uint64_t operator()(const StepShape& s) const {
    return hash_of(s.kinds) * 31 + hash_of(s.early) * 17 + hash_of(s.graph.successor) * 7 +
           hash_of(s.graph.offset);
  }
};
struct ShapeEqual {
  bool operator()(const StepShape& a, const StepShape& b) const {
    return a.kinds == b.kinds && a.early == b.early && a.graph.offset == b.graph.offset &&
           a.graph.successor == b.graph.successor;
  }
};

// What a price says, as numbers.
auto terms(const CostMessage& m) {
  const double kinds = (m.between_hosts ? 1 : 0) + 2 * static_cast<int>(m.path) +
                       (m.in_place ? 8 : 0) + (m.cut ? 16 : 0);
  return std::array{kinds,         m.bytes,         m.head,    m.posted,   m.taken,
                    m.encode.core, m.encode.memory, m.latency, m.out.core, m.out.memory,
                    m.in.core,     m.in.memory,     m.network, m.middle,   m.eager};
}
struct PriceHash {
  uint64_t operator()(const CostMessage& m) const {
    const auto all = terms(m);
    return hash_of(all.data(), sizeof all);
  }
};
struct PriceEqual {
  bool operator()(const CostMessage& a, const CostMessage& b) const { return terms(a) == terms(b); }
};
struct LocalHash {
  uint64_t operator()(const PerByte& p) const { return hash_of(&p, sizeof p); }
};
struct LocalEqual {
  bool operator()(const PerByte& a, const PerByte& b) const {
    return a.core == b.core && a.memory == b.memory;
  }
};

// The messages from one rank to a peer are consecutive; those that it receives wait in a list until
// all senders are known.
struct Queue {
  int32_t peer;
  uint32_t first, count;
};

class TrafficBinder {
 public:
  TrafficBinder(const TrafficRequest& request, const MachineModel& machine)
      : request_(request), machine_(machine), prices_(request.load, machine, request.n) {
    local_.of({});
  }

  Traffic run(const std::function<void(int)>& progress) {
    const int each = plans_at_a_time();
    for (int r = 0; r < request_.n; r += each) {
      if (progress) progress(r);
      std::vector<std::future<Plan>> plans;
      for (int i = r; i < std::min(r + each, request_.n); ++i)
        plans.push_back(std::async(each > 1 ? std::launch::async : std::launch::deferred,
                                   [this, i] { return plan_of(i); }));
      for (int i = r; i < std::min(r + each, request_.n); ++i) add_rank(i, plans[i - r].get());
    }
    first_sends_.push_back(sends_.size());
    first_receives_.push_back(receives_.size());
    for (int r = 0; r < request_.n; ++r) add_receives(r);
    set_rates();
    for (int r = 0; r < request_.n; ++r) price_local(r);
    for (size_t i = 0; i < traffic_.messages.size(); ++i) price(i);
    if (request_.load.agreement) {
      const Prices::Agreement agreement = prices_.agreement();
      traffic_.agreed = agreement.agreed;
      traffic_.agreeing = agreement.agreeing;
    }
    return std::move(traffic_);
  }

 private:
  // Plans are made at the same time, by as many threads as there are processors.
  int plans_at_a_time() const {
    constexpr int kFewRanks = 512, kMaxPlans = 8;
    const int processors = static_cast<int>(std::thread::hardware_concurrency());
    return request_.n < kFewRanks ? 1 : std::clamp(processors, 1, kMaxPlans);
  }
  Plan plan_of(int r) const {
    return std::move(
        plans_of({request_.build(r)}, request_.segments, request_.load, machine_).front());
  }

  void add_rank(int r, Plan plan) {
    TrafficRank rank;
    rank.first_item = static_cast<uint32_t>(traffic_.items.size());
    StepShape shape;
    for (const BoundStep& step : plan.steps) {
      shape.kinds.push_back(step.kind);
      shape.early.push_back(step.early ? 1 : 0);
      bytes_.push_back(static_cast<double>(step.bytes));
    }
    shape.graph = std::move(plan.graph);
    rank.shape = shapes_.of(std::move(shape));
    traffic_.ranks.push_back(rank);
    traffic_.items.resize(bytes_.size(), kNothing);
    sets_.push_back(prices_.bind(plan, costs_.emplace_back()));
    add_queues(r, plan);
  }

  void add_queues(int r, Plan& plan) {
    std::sort(plan.peers.begin(), plan.peers.end(),
              [](const PeerQueue& a, const PeerQueue& b) { return a.peer < b.peer; });
    first_sends_.push_back(sends_.size());
    first_receives_.push_back(receives_.size());
    const uint32_t first_item = traffic_.ranks[r].first_item;
    for (const PeerQueue& queue : plan.peers) {
      if (!queue.receives.empty())
        receives_.push_back({queue.peer, static_cast<uint32_t>(receive_steps_.size()),
                             static_cast<uint32_t>(queue.receives.size())});
      receive_steps_.insert(receive_steps_.end(), queue.receives.begin(), queue.receives.end());
      if (queue.sends.empty()) continue;
      sends_.push_back({queue.peer, static_cast<uint32_t>(traffic_.messages.size()),
                        static_cast<uint32_t>(queue.sends.size())});
      traffic_.heads.push_back(static_cast<int32_t>(traffic_.messages.size()));
      for (const int32_t step : queue.sends) {
        const auto index = static_cast<int32_t>(traffic_.messages.size());
        traffic_.items[first_item + static_cast<uint32_t>(step)] = index;
        traffic_.messages.push_back({r, queue.peer, step, -1, index + 1, -1});
        first_.push_back(step == queue.sends.front());
        scratch_.push_back(plan.steps[static_cast<size_t>(step)].src.buffer == kScratch);
      }
      traffic_.messages.back().next = -1;
      if (traffic_.messages.size() > kMaxMessages)
        refuse(fmt::format("more than {} million messages are too many to be simulated one by one",
                           kMaxMessages / 1'000'000));
    }
  }

  // The k-th send of one end meets the k-th receive of the other.
  void add_receives(int r) {
    for (size_t i = first_receives_[r]; i < first_receives_[r + 1]; ++i) {
      const Queue& queue = receives_[i];
      const int sender = queue.peer, receiver = r;
      const auto begin = sends_.begin() + static_cast<ptrdiff_t>(first_sends_[sender]);
      const auto end = sends_.begin() + static_cast<ptrdiff_t>(first_sends_[sender + 1]);
      const auto from = std::lower_bound(
          begin, end, receiver, [](const Queue& q, int32_t peer) { return q.peer < peer; });
      const uint32_t sent = from != end && from->peer == receiver ? from->count : 0;
      if (sent != queue.count)
        refuse(fmt::format("simulate: rank {} receives {} messages from rank {}, which sends {}", r,
                           queue.count, queue.peer, sent));
      for (uint32_t k = 0; k < queue.count; ++k) {
        const int32_t step = receive_steps_[queue.first + k];
        traffic_.messages[from->first + k].recv_step = step;
        traffic_.items[traffic_.ranks[r].first_item + static_cast<uint32_t>(step)] =
            static_cast<int32_t>(from->first + k);
      }
    }
  }

  void set_rates() {
    std::vector<double> of_host(prices_.hosts(), 0);
    for (int r = 0; r < request_.n; ++r) of_host[machine_.host_of(r)] += sets_[r];
    for (int r = 0; r < request_.n; ++r) {
      CostRank& costs = costs_[r];
      prices_.set_rates(costs, r, sets_[r], of_host[machine_.host_of(r)]);
      traffic_.ranks[r].on_cores = costs.on_cores;
      traffic_.ranks[r].own_block = {costs.own_block * costs.copies.core,
                                     costs.own_block * costs.copies.memory};
    }
  }

  void price_local(int r) {
    const TrafficRank& rank = traffic_.ranks[r];
    const std::vector<StepKind>& kinds = traffic_.shape(r).kinds;
    for (size_t i = 0; i < kinds.size(); ++i) {
      int32_t& item = traffic_.items[rank.first_item + i];
      if (item != kNothing) continue;
      const double bytes = bytes_[rank.first_item + i];
      const PerByte& cost = kinds[i] == StepKind::copy ? costs_[r].copies : costs_[r].reduces;
      item = -1 - local_.of({bytes * cost.core, bytes * cost.memory});
    }
  }

  void price(size_t index) {
    TrafficMessage& m = traffic_.messages[index];
    if (m.recv_step < 0)
      refuse(fmt::format("simulate: rank {} does not receive a message of rank {}", m.to, m.from));
    CostMessage priced = prices_.message(m.from, m.to);
    priced.bytes = bytes_[traffic_.ranks[m.from].first_item + static_cast<uint32_t>(m.send_step)];
    priced.reduces = traffic_.shape(m.to).kinds[m.recv_step] == StepKind::recv_reduce;
    priced.scratch = scratch_[index];
    priced.behind = traffic_.shape(m.to).early[m.recv_step] != 0 && first_[index];
    prices_.set_costs(priced, costs_[m.from], costs_[m.to]);
    priced.from = priced.to = 0;
    m.price = prices_of_.of(priced);
  }

  static constexpr int32_t kNothing = -1;  // as for a step that costs nothing

  const TrafficRequest& request_;
  const MachineModel& machine_;
  const Prices prices_;
  Traffic traffic_;
  Numbers<StepShape, ShapeHash, ShapeEqual> shapes_{traffic_.shapes};
  Numbers<CostMessage, PriceHash, PriceEqual> prices_of_{traffic_.prices};
  Numbers<PerByte, LocalHash, LocalEqual> local_{traffic_.local};
  std::vector<CostRank> costs_;  // by rank; steps are not set
  std::vector<double> sets_;     // by rank: its working set
  std::vector<double> bytes_;    // by step, as Traffic::items
  std::vector<bool> scratch_;    // by message: CostMessage::scratch
  std::vector<bool> first_;      // by message: of those from one rank to another
  // By rank, from its first one on; by peer.
  std::vector<Queue> sends_, receives_;
  std::vector<size_t> first_sends_, first_receives_;
  std::vector<int32_t> receive_steps_;
};

}  // namespace

Traffic bind_traffic(const TrafficRequest& request, const MachineModel& machine,
                     const std::function<void(int)>& progress) {
  return TrafficBinder(request, machine).run(progress);
}

}  // namespace ringwood
