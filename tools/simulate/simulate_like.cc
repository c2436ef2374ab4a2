#include "tools/simulate/simulate_like.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/command/text_files.h"
#include "tools/matrix/solve.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// What differs by less is the same, measured twice.
constexpr double kSame = 0.8;
constexpr double kMinPart = 1e-3;

// What the median host sends while all send to all.
double usual_at_once(const HostMatrix& rail) {
  Table sums;
  for (const auto& row : rail.all) {
    double sum = 0;
    for (const double rate : row) sum += rate;
    sums.push_back({sum});
  }
  return median_rate(sums);
}

// Rails that reach about as much as the fastest one; the others are faults.
std::vector<const HostMatrix*> healthy_rails(const Matrix& matrix) {
  double fastest = 0;
  for (const HostMatrix& rail : matrix.rails) {
    const double rate = median_rate(judged(rail));
    if (rate <= 0)
      refuse("--like: the matrix has no rates; measure it with --modes alone,pairs and --transfer");
    fastest = std::max(fastest, rate);
  }
  std::vector<const HostMatrix*> healthy;
  for (const HostMatrix& rail : matrix.rails)
    if (median_rate(judged(rail)) >= kSame * fastest) healthy.push_back(&rail);
  return healthy;
}

void set_rates(LikeCluster& cluster, const Matrix& matrix) {
  NetworkParameters& net = cluster.machine.net;
  const auto healthy = healthy_rails(matrix);
  double pairs = 0, ports = 0, both = 0;
  for (const HostMatrix* rail : healthy) {
    const double alone = median_rate(judged(*rail)), at_once = usual_at_once(*rail);
    pairs += alone;
    // One flow may get only a part of a port; and where a host has a cable to each other one, too.
    ports += alone < kSame * at_once ? at_once : alone;
    both += rail->alone.empty() || rail->pairs.empty() ? alone : median_rate(rail->pairs);
  }
  net.rails = static_cast<int>(matrix.rails.size());
  net.nic = ports / static_cast<double>(healthy.size()) * net.rails;
  net.both_ways = both < kSame * pairs ? both / pairs : 1;
  if (pairs < kSame * ports) cluster.pair = pairs / ports;
  net.rail_of_rank = net.rails > 1;
  net.far.reset();
  net.leaves.clear();
  net.exceptions.clear();
  net.sharing = std::max(1, std::min(matrix.sharing, cluster.hosts));
}

// The rate of a rail as a part of the healthy ones'.
double part_of(const Matrix& matrix, const HostMatrix& rail) {
  const auto healthy = healthy_rails(matrix);
  double sum = 0;
  for (const HostMatrix* one : healthy) sum += median_rate(judged(*one));
  const double part = median_rate(judged(rail)) / (sum / static_cast<double>(healthy.size()));
  return part < kSame ? part : 1;
}

// Rails that are slow at all hosts, and what is left of them while all are busy.
void set_rails(LikeCluster& cluster, const Matrix& matrix) {
  for (size_t i = 0; matrix.rails.size() > 1 && i < matrix.rails.size(); ++i) {
    const auto add = [&](SlowPath::Kind kind, double part, const char* when) {
      if (part < kSame)
        cluster.faults.push_back({kind, -1, -1, static_cast<int>(i), std::max(part, kMinPart),
                                  fmt::format("{}{} at {:.2f}", matrix.rails[i].rail, when, part)});
    };
    add(SlowPath::Kind::rail, part_of(matrix, matrix.rails[i]), "");
    const RailMatrix& between = matrix.rail_by_rail;
    if (between.all.empty() || between.all[i] <= 0 || between.cross[i][i] <= 0) continue;
    add(SlowPath::Kind::together, between.all[i] / between.cross[i][i],
        " while all rails are busy");
  }
}

int rail_number(const Matrix& matrix, const std::string& name) {
  for (size_t rail = 0; rail < matrix.rails.size(); ++rail)
    if (matrix.rails.size() > 1 && matrix.rails[rail].rail == name) return static_cast<int>(rail);
  return -1;
}

void set_slow(LikeCluster& cluster, const Matrix& matrix) {
  for (const SlowPath& slow : matrix.slow) {
    if (slow.kind == SlowPath::Kind::rail || slow.kind == SlowPath::Kind::together) continue;
    const int rail = rail_number(matrix, slow.rail);
    const HostMatrix& over = matrix.rails[static_cast<size_t>(std::max(rail, 0))];
    const double part = std::clamp(slow.rate / median_rate(judged(over)), kMinPart, 1.0);
    const std::string sentence = describe(matrix, slow);
    cluster.faults.push_back(
        {slow.kind, slow.from, slow.to, rail,
         // A link has a rate of its own; the port's part slows down the port.
         slow.kind == SlowPath::Kind::link ? part * part_of(matrix, over) : part,
         fmt::format("{} at {:.2f}", sentence.substr(0, sentence.rfind(": ")), part)});
  }
}

}  // namespace

Matrix read_like_matrix(const std::string& file) {
  Matrix matrix = parse_all("--like", file, parse_matrix);
  if (matrix.hosts.size() < 2 || matrix.rails.empty())
    refuse(fmt::format("--like {}: it has no matrix of two hosts or more", file));
  return matrix;
}

LikeCluster read_like(const std::string& file) {
  const Matrix matrix = read_like_matrix(file);
  LikeCluster cluster;
  cluster.hosts = static_cast<int>(matrix.hosts.size());
  const auto [least, most] = std::ranges::minmax(matrix.ranks);
  if (least == most) cluster.ranks_per_host = most;
  if (!matrix.machine.empty()) cluster.machine = parse_machine_model(matrix.machine);
  cluster.machine.hosts.clear();
  cluster.machine.nodes.clear();
  set_rates(cluster, matrix);
  set_rails(cluster, matrix);
  set_slow(cluster, matrix);
  return cluster;
}

void add_faults(const LikeCluster& cluster, int hosts, Faults& faults,
                std::vector<std::string>& texts) {
  for (const LikeFault& fault : cluster.faults) {
    if (std::max(fault.from, fault.to) >= hosts) continue;
    texts.push_back(fault.text);
    switch (fault.kind) {
      case SlowPath::Kind::link:
        faults.links.push_back({fault.from, fault.to, fault.rail, fault.part});
        break;
      case SlowPath::Kind::sender:
        faults.ports.push_back({fault.from, fault.rail, fault.part, PortWay::out});
        break;
      case SlowPath::Kind::receiver:
        faults.ports.push_back({fault.to, fault.rail, fault.part, PortWay::in});
        break;
      case SlowPath::Kind::rail:
      case SlowPath::Kind::together:
        for (int host = 0; host < hosts; ++host)
          faults.ports.push_back({host, fault.rail, fault.part});
        break;
    }
  }
}

}  // namespace ringwood::tools
