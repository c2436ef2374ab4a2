#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {
namespace {

const PerByte& local_cost(const CostRank& rank, size_t step) {
  return rank.plan->steps[step].kind == StepKind::copy ? rank.copies : rank.reduces;
}

// Of CostModel::port_rates: the port of a message's end.
size_t port_at(const CostModel& model, int rank, const CostMessage& m) {
  const auto host = static_cast<size_t>(model.ranks[rank].host);
  return host * static_cast<size_t>(model.ports) + static_cast<size_t>(m.port);
}

// Of what a message has at one end of a whole interface, at most.
double share_of_port(const CostModel& model, int rank, const CostMessage& m) {
  if (m.cut || model.rails == 1) return model.port_rates[port_at(model, rank, m)];
  const auto first = model.rail_rates.begin() + model.ranks[rank].host * model.rails;
  return *std::max_element(first, first + model.rails);
}

// Seconds for the bytes of a message that is alone on its way.
double alone(const CostModel& model, const CostMessage& m) {
  const double port = m.path == PathClass::device ? 1
                                                  : std::min(share_of_port(model, m.from, m),
                                                             share_of_port(model, m.to, m));
  const double waiting = std::max(0.0, m.bytes - model.burst);
  const auto parts = [&](int rank) { return model.leaf_hosts[model.leaf[model.ranks[rank].host]]; };
  const double part = std::min({parts(m.from), parts(m.to), model.most_parts});
  return std::max({m.bytes * m.out.core, m.bytes * m.in.core, waiting * m.network / port + m.gap,
                   waiting * m.middle / part});
}

// Of a port's seconds. Of several rails one alone may spend it.
double gap_of(const CostModel& model, const CostMessage& m) {
  return m.cut ? m.gap : m.gap / model.rails;
}

struct Busy {
  BusyByLimit by_limit{};
  double posts = 0;  // the part that posting takes of a thread, or of a host's cores
};

Busy busiest(const CostModel& model, const MachineModel& machine) {
  const auto host = [&](int rank) { return model.ranks[rank].host; };
  std::vector<double> thread(model.ranks.size(), model.agreeing);
  const auto sets = static_cast<size_t>(sharing_sets(machine, model.hosts));
  std::vector<double> posts(model.ranks.size(), 0), set_posts(sets, 0);
  std::vector<double> cores(sets, 0), memory(sets, 0);
  const auto set = [&](int rank) { return sharing_set(machine, host(rank)); };
  const auto part = [&](int rank) { return part_of_set(machine, model.hosts, set(rank)); };
  std::vector<double> out(model.port_rates.size(), 0), in = out;
  std::vector<double> device_out(model.ranks.size(), 0), device_in = device_out;
  std::vector<double> middle_out(model.leaf_hosts.size(), 0), middle_in = middle_out;
  const auto leaf = [&](int rank) { return model.leaf[host(rank)]; };
  const auto work = [&](int rank, double seconds, double memory_seconds) {
    thread[rank] += seconds;
    cores[set(rank)] += seconds / (machine.cores * part(rank));
    memory[set(rank)] += memory_seconds / part(rank);
  };
  for (const CostMessage& m : model.messages) {
    for (const auto& [rank, post] : {std::pair{m.from, m.posted}, {m.to, m.taken}}) {
      posts[rank] += post;
      set_posts[set(rank)] += post / (machine.cores * part(rank));
    }
    work(m.from, m.posted + m.bytes * (m.encode.core + m.out.core),
         m.bytes * (m.encode.memory + m.out.memory));
    work(m.to, m.taken + m.bytes * m.in.core, m.bytes * m.in.memory);
    if (m.path == PathClass::device) {
      device_out[m.from] += m.bytes * m.network;
      device_in[m.to] += m.bytes * m.network;
      continue;
    }
    const size_t from = port_at(model, m.from, m), to = port_at(model, m.to, m);
    out[from] += m.bytes * m.network / model.port_rates[from] + gap_of(model, m);
    in[to] += m.bytes * m.network / model.port_rates[to] + gap_of(model, m);
    middle_out[leaf(m.from)] += m.bytes * m.middle / model.leaf_hosts[leaf(m.from)];
    middle_in[leaf(m.to)] += m.bytes * m.middle / model.leaf_hosts[leaf(m.to)];
  }
  for (size_t r = 0; r < model.ranks.size(); ++r) {
    const CostRank& rank = model.ranks[r];
    work(static_cast<int>(r), rank.own_block * rank.copies.core,
         rank.own_block * rank.copies.memory);
    for (size_t i = 0; i < rank.bytes.size(); ++i) {
      if (rank.message[i] >= 0) continue;
      const PerByte& cost = local_cost(rank, i);
      work(static_cast<int>(r), rank.bytes[i] * cost.core, rank.bytes[i] * cost.memory);
    }
  }
  const auto most = [](const auto&... kinds) {
    return std::max({*std::max_element(kinds.begin(), kinds.end())...});
  };
  Busy busy{{}, most(posts, set_posts)};
  const auto set_busy = [&](Limit limit, double seconds) {
    busy.by_limit[static_cast<size_t>(limit)] = seconds;
  };
  set_busy(Limit::core, most(thread, cores));
  set_busy(Limit::memory, most(memory));
  set_busy(Limit::port_out, most(out));
  set_busy(Limit::port_in, most(in));
  set_busy(Limit::uplink, most(middle_out, middle_in));
  set_busy(Limit::island, most(device_out, device_in));
  return busy;
}

// The longest path over all ranks' steps: within a rank by its graph, between ranks from a send to
// its receive. Computed with the time of the bytes, and without.
class Path {
 public:
  struct Length {
    double whole = 0, latencies = 0;
    void grow(const Length& other) {
      whole = std::max(whole, other.whole);
      latencies = std::max(latencies, other.latencies);
    }
    void add(double latency, double seconds_of_bytes) {
      whole += latency + seconds_of_bytes;
      latencies += latency;
    }
  };

  explicit Path(const CostModel& model) : model_(model) {
    for (const CostRank& rank : model.ranks) {
      start_.emplace_back(rank.bytes.size());
      waits_.push_back(rank.plan->graph.predecessors);
      for (size_t i = 0; i < rank.bytes.size(); ++i) waits_.back()[i] += receives(rank, i);
      left_ += rank.bytes.size();
    }
  }

  Length run() {
    for (size_t r = 0; r < waits_.size(); ++r)
      for (size_t i = 0; i < waits_[r].size(); ++i)
        if (waits_[r][i] == 0) ready_.push_back({static_cast<int32_t>(r), static_cast<int32_t>(i)});
    Length last{model_.agreed, model_.agreed};
    while (!ready_.empty()) {
      const auto [r, i] = ready_.back();
      ready_.pop_back();
      --left_;
      last.grow(finish(r, i));
    }
    if (left_ > 0)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cost: {} steps wait for each other in a cycle and never begin", left_));
    return last;
  }

 private:
  static bool receives(const CostRank& rank, size_t i) {
    return rank.message[i] >= 0 && rank.plan->steps[i].kind != StepKind::send;
  }

  Length finish(int32_t r, int32_t i) {
    const CostRank& rank = model_.ranks[r];
    Length end = start_[r][i];
    const Length agreed{model_.agreed, model_.agreed};
    const bool early = rank.plan->steps[i].early;
    if (rank.message[i] < 0) {
      if (!early) end.grow(agreed);
      end.add(0, rank.bytes[i] * local_cost(rank, i).core);
    } else {
      const CostMessage& m = model_.messages[rank.message[i]];
      const bool takes = receives(rank, i);
      if (takes && !early) end.grow(agreed);
      end.add(takes ? m.taken : m.posted, takes ? 0 : m.bytes * m.encode.core);
      if (!takes) {
        Length arrival = end;
        arrival.add(m.latency, alone(model_, m));
        reach(m.to, m.recv_step, arrival);
      }
    }
    for (int32_t k = rank.plan->graph.offset[i]; k < rank.plan->graph.offset[i + 1]; ++k)
      reach(r, rank.plan->graph.successor[k], end);
    return end;
  }

  void reach(int32_t r, int32_t i, const Length& time) {
    start_[r][i].grow(time);
    if (--waits_[r][i] == 0) ready_.push_back({r, i});
  }

  const CostModel& model_;
  std::vector<std::vector<Length>> start_;
  std::vector<std::vector<int32_t>> waits_;
  std::vector<std::pair<int32_t, int32_t>> ready_;  // rank, step
  size_t left_ = 0;
};

// Over the network, or between devices. A port passes its burst in no time, beside other messages.
double shortest_latency(const CostModel& model, Limit busiest) {
  if (busiest == Limit::core || busiest == Limit::memory || model.burst > 0) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const CostMessage& m : model.messages)
    if (m.between_hosts || m.path == PathClass::device) least = std::min(least, m.latency);
  return std::isfinite(least) ? least : 0;
}

}  // namespace

CostBounds bounds_of(const CostModel& model, const MachineModel& machine) {
  const Path::Length path = Path(model).run();
  const auto [busy, posts] = busiest(model, machine);
  const auto most = std::ranges::max_element(busy);
  const auto limit = static_cast<Limit>(most - busy.begin());
  return {*most, path.whole, path.latencies, posts, busy, shortest_latency(model, limit)};
}

Busiest CostBounds::busiest(int segments) const {
  Busiest busiest;
  busiest.add(busy);
  busiest.add(Limit::core, busy[static_cast<size_t>(Limit::core)] + (segments - 1) * posts);
  return busiest;
}

double CostBounds::estimate(int segments) const {
  const double busy = busy_in(segments);
  const double first = latencies + (path - latencies) / segments;
  return std::max(first + busy * (segments - 1) / segments, busy + latencies);
}

}  // namespace ringwood
