#include "tools/doctor/probe_rails.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/rules/facts.h"
#include "tools/gather.h"
#include "tools/matrix/solve.h"
#include "transports/verbs/rail/addresses.h"

namespace ringwood::tools::doctor {
namespace {

constexpr int kConfirmations = 2;
constexpr double kSlow = 0.75;

// The ports that a rank of the host may use, in order.
std::vector<const RdmaPort*> usable_rails(const Snapshot& host) {
  const auto wish = knob_in(host, "RINGWOOD_VERBS_DEVICES");
  std::string why;
  std::vector<const RdmaPort*> usable;
  for (const RdmaPort* port : rails(host))
    if ((!is_roce(*port) || chosen_gid(host, *port, why)) &&
        verbs::selected(wish ? wish->value : "", port->device, port->number))
      usable.push_back(port);
  return usable;
}

// Why rails cannot be measured one by one; "" where they can.
std::string why_not(const Snapshots& hosts, const Matrix& together) {
  const Snapshot* other = nullptr;
  const size_t first = usable_rails(hosts[0]).size();
  for (const Snapshot& host : hosts)
    if (usable_rails(host).size() != first) other = &host;
  if (other != nullptr)
    return fmt::format(
        "{} has {} rails that can be used and {} has {}, so nobody knows which belong "
        "together",
        hosts[0].host, first, other->host, usable_rails(*other).size());
  for (const HostMatrix& rail : together.rails)
    if (rail.transport != "verbs")
      return fmt::format("ranks use {} between these hosts, not verbs alone", rail.transport);
  return "";
}

// One rail's group, as long as rails are compared.
class Rail final {
 public:
  Rail(std::unique_ptr<Communicator> group, std::string name, const MatrixOptions& options)
      : group_(std::move(group)), options_(options), name_(std::move(name)) {
    measure();
  }
  void measure() {
    Matrix measured = measure_matrix(*group_, options_);
    HostMatrix& rail = measured.rails[0];
    for (size_t a = 0; !rates.pairs.empty() && a < rates.pairs.size(); ++a)
      for (size_t b = 0; b < rates.pairs.size(); ++b)
        rail.pairs[a][b] = std::max(rail.pairs[a][b], rates.pairs[a][b]);
    rates = std::move(rail);
    seconds += measured.seconds;
    rates.rail = name_;
    slow = find_slow(rates.pairs, kSlow, name_);
  }

  HostMatrix rates;  // the better ones of all measurements
  std::vector<SlowPath> slow;
  double seconds = 0;

 private:
  const std::unique_ptr<Communicator> group_;
  const MatrixOptions options_;
  const std::string name_;
};

// Null, with the reason, on all ranks, where it fails on one of them.
std::unique_ptr<Rail> make_rail(Communicator& group, const MakeGroup& make, const RdmaPort& port,
                                int number, const MatrixOptions& options, std::string& why) {
  std::unique_ptr<Rail> rail;
  std::string error;
  try {
    rail = std::make_unique<Rail>(make(fmt::format("={}:{}", port.device, port.number), number),
                                  options.rail, options);
    if (rail->rates.transport != "verbs")
      error = fmt::format("ranks that may use only it take {}", rail->rates.transport);
  } catch (const Error& failed) {
    error = failed.message();
  }
  for (const std::string& text : gather_texts(group, error))
    if (why.empty()) why = text;
  return why.empty() ? std::move(rail) : nullptr;
}

std::string name_of_rail(const Snapshots& hosts, size_t rail) {
  std::string name = usable_rails(hosts[0])[rail]->device;
  for (const Snapshot& host : hosts)
    if (usable_rails(host)[rail]->device != name) return fmt::format("rail{}", rail);
  return name;
}

}  // namespace

RailProbe probe_rails(Communicator& group, const Snapshots& hosts, size_t mine,
                      const Matrix& together, const MakeGroup& make,
                      const std::function<void(const std::string&)>& progress) {
  RailProbe result;
  const auto miss = [&](const std::string& what, const std::string& reason) {
    result.not_checked.push_back({what, reason, "", {"probe-slow-pair"}});
  };
  if (std::ranges::none_of(hosts, [](const auto& h) { return usable_rails(h).size() > 1; }))
    return result;
  if (const std::string reason = why_not(hosts, together); !reason.empty()) {
    miss("rails one by one", reason);
    return result;
  }
  MatrixOptions options;
  options.host = hosts[mine].host;
  options.alone = options.all = false;
  options.slow = kSlow;
  std::vector<std::unique_ptr<Rail>> measured;
  for (size_t i = 0; i < usable_rails(hosts[mine]).size(); ++i) {
    options.rail = name_of_rail(hosts, i);
    options.progress = [&, name = options.rail](const std::string& text) {
      if (progress) progress(fmt::format("{} alone, {}", name, text));
    };
    std::string why;
    auto rail =
        make_rail(group, make, *usable_rails(hosts[mine])[i], static_cast<int>(i), options, why);
    if (rail)
      measured.push_back(std::move(rail));
    else
      miss("rail " + options.rail, why);
  }
  if (measured.empty()) return result;
  Matrix all;
  for (int turn = 0;; ++turn) {
    all = Matrix{together.hosts,   together.ranks,   {}, {}, {}, {},
                 together.machine, together.sharing, 0};
    for (const auto& rail : measured) {
      all.rails.push_back(rail->rates);
      all.seconds += rail->seconds;
      all.slow.insert(all.slow.end(), rail->slow.begin(), rail->slow.end());
    }
    const auto slow = find_slow_rails(all, kSlow);
    all.slow.insert(all.slow.end(), slow.begin(), slow.end());
    if (all.slow.empty() || turn == kConfirmations) break;
    for (const auto& rail : measured)
      if (std::ranges::count(all.slow, rail->rates.rail, &SlowPath::rail) > 0) rail->measure();
  }
  result.matrix = std::move(all);
  return result;
}

}  // namespace ringwood::tools::doctor
