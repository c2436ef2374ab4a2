#include "tools/ladder/ladder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "tools/command/progress_line.h"
#include "tools/command/text_files.h"
#include "tools/gather.h"
#include "tools/ladder/rungs.h"
#include "tools/perf/perf_operations.h"
#include "transports/base/host.h"
#include "transports/bootstrap/net.h"

namespace ringwood::tools {
namespace {

constexpr double kBatchSeconds = 2e-3;
constexpr int kMaxTimes = 200;
constexpr int kMaxStarts = 3;  // of programs, for a size
// Ranks that take no part wait for those that do, however long; a rank that dies ends the wait.
constexpr auto kWaitForTheLadder = std::chrono::hours(24);

// Bytes/s as the kernel has it; 0 for what is virtual or does not say.
double rate_of(const std::string& interface) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::path("/sys/class/net") / interface;
  double mbit = 0;
  if (!fs::exists(folder / "device", ignored) || !(std::ifstream(folder / "speed") >> mbit))
    return 0;
  return std::max(0.0, mbit) * 1e6 / 8;
}

// The slower of the two ranks' ports.
LadderRow port_row(const LadderPair& pair, const std::string& interface,
                   const std::vector<size_t>& sizes) {
  LadderRow row{"port", "", "", {}};
  const bool verbs = pair.group.transport_to(1 - pair.group.rank()).starts_with("verbs");
  const double mine = verbs ? rate_of_rdma_ports(pair.options) : rate_of(interface);
  const auto rates = gather_texts(pair.group, fmt::format("{}", mine));
  const double rate = std::min(std::stod(rates[0]), std::stod(rates[1]));
  if (gather_hosts(pair.group).size() < 2)
    row.why_not = "both ranks are on one host";
  else if (rate <= 0)
    row.why_not =
        fmt::format("the kernel knows no rate of {}", verbs ? "the RDMA ports" : interface.c_str());
  row.what = rate > 0 ? fmt::format("{:.4g} Gbit/s, as the kernel says", rate * 8e-9) : interface;
  if (row.why_not.empty())
    for (size_t i = 0; i < sizes.size(); ++i)
      row.seconds.push_back(static_cast<double>(sizes[i]) / rate);
  return row;
}

double median(std::vector<double> values) {
  const auto half = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

class Climb final {
 public:
  Climb(const LadderPair& pair, const LadderOptions& options) : pair_(pair), options_(options) {}

  // On both ranks; the times are those of rank 0.
  Ladder measure(const std::string& interface) {
    Ladder ladder{options_.sizes, {}, ""};
    ladder.rows.push_back(port_row(pair_, interface, options_.sizes));
    add(ladder, "raw socket", make_socket_rung(pair_));
    add(ladder, "raw verbs", make_verbs_rung(pair_));
    // What the link does not go over is no part of what it takes.
    const std::string transport = pair_.group.transport_to(1 - pair_.group.rank());
    ladder.rows[1].beside = !transport.starts_with("tcp");
    ladder.rows[2].beside = !transport.starts_with("verbs");
    add(ladder, "link", make_link_rung(pair_));
    add(ladder, "collective", make_collective_rung(pair_));
    add(ladder, "torch", make_torch_rung(pair_));
    for (size_t size = 0; size < options_.sizes.size(); ++size) measure_size(ladder, size);
    return ladder;
  }

 private:
  void add(Ladder& ladder, const char* name, MadeRung made) {
    ladder.rows.push_back({name, made.what, made.why_not, {}});
    rungs_.push_back(std::move(made.rung));
  }
  // 0: the rung's programs have ended on one of the ranks; it is gone, and its row says why.
  double once(Ladder& ladder, size_t r, size_t bytes, int times) {
    std::unique_ptr<Rung>& rung = rungs_[r];
    if (!rung) return 0;
    finish(pair_.group.barrier(synchronous_call()));
    const double seconds = rung->exchange(bytes, times);
    if (!rung->by_programs()) return seconds;
    for (const std::string& why : gather_texts(pair_.group, rung->failure()))
      if (ladder.rows[r + 1].why_not.empty()) ladder.rows[r + 1].why_not = why;
    if (ladder.rows[r + 1].why_not.empty()) return seconds;
    rung.reset();
    return 0;
  }
  int times_of(Ladder& ladder, size_t r, size_t bytes) {
    if (!rungs_[r] || rungs_[r]->starts_anew()) return 1;
    (void)once(ladder, r, bytes, 1);  // buffers, plans
    double first = once(ladder, r, bytes, 2);
    if (!rungs_[r]) return 1;
    finish(pair_.group.broadcast(&first, 1, DataType::float64, 0, synchronous_call()));
    return static_cast<int>(std::clamp(kBatchSeconds / first, 1.0, double{kMaxTimes}));
  }
  bool has_turn(size_t r, int repeat) const {
    const int apart = (options_.repeats + kMaxStarts - 1) / kMaxStarts;
    return rungs_[r] && (!rungs_[r]->starts_anew() || repeat % apart == 0);
  }
  void measure_size(Ladder& ladder, size_t size) {
    const size_t bytes = options_.sizes[size];
    std::vector<std::vector<double>> seconds(rungs_.size());
    std::vector<int> times;
    for (size_t r = 0; r < rungs_.size(); ++r) times.push_back(times_of(ladder, r, bytes));
    for (int i = 0; i < options_.repeats; ++i) {
      if (pair_.group.rank() == 0)
        progress_.show(fmt::format("{} B, size {} of {}: {} of {}", bytes, size + 1,
                                   options_.sizes.size(), i + 1, options_.repeats));
      for (size_t r = 0; r < rungs_.size(); ++r)
        if (has_turn(r, i)) seconds[r].push_back(once(ladder, r, bytes, times[r]));
    }
    // Of a rung that ended meanwhile the size counts as not measured.
    for (size_t r = 0; r < rungs_.size(); ++r)
      ladder.rows[r + 1].seconds.push_back(rungs_[r] ? median(seconds[r]) : 0);
  }

  const LadderPair& pair_;
  const LadderOptions& options_;
  std::vector<std::unique_ptr<Rung>> rungs_;
  ProgressLine progress_{"perf --ladder"};
};

// Rank 0 and the first one on another host, or else rank 1.
int other_rank(Communicator& group) {
  const auto hosts = gather_hosts(group);
  return hosts.size() > 1 ? hosts[1].ranks.front() : 1;
}

Ladder measure(const LadderOptions& ladder, const Options& options, Communicator& group, int other,
               const std::shared_ptr<Store>& store) {
  const int rank = group.rank() == 0 ? 0 : 1;
  const auto names = gather_texts(group, host_name());
  const auto own =
      Communicator::create(prefix_store(store, "ladder/group/"), rank, 2, options, "ladder");
  const bool several = gather_hosts(*own).size() > 1;
  const AddressChoice here = several ? choose_local_address(options, store->master_address(), true)
                                     : AddressChoice{"127.0.0.1", "lo", "", ""};
  const LadderPair pair{*own, options, prefix_store(store, "ladder/links/"), here.host};
  Ladder result = Climb(pair, ladder).measure(here.interface);
  result.ranks = fmt::format("rank 0 on {}, rank {} on {}{}", names[0], other,
                             names[static_cast<size_t>(other)], several ? "" : ", the same host");
  finish(own->barrier());
  return result;
}

void report(const LadderOptions& options, const Ladder& ladder) {
  fmt::print(options.json == "-" ? stderr : stdout, "{}", print_table(ladder));
  if (options.json) write_all("--json", *options.json, print_json(ladder) + "\n");
  if (options.html) write_html(ladder, *options.html);
}

}  // namespace

int run_ladder(const LadderOptions& typed) {
  LadderOptions ladder = typed;
  if (ladder.sizes.empty()) ladder.sizes = {8, 4 << 10, 64 << 10, 1 << 20, 16 << 20};
  Options options = Options::from_environment();
  if (!ladder.transports.empty()) options.transports = ladder.transports;
  if (ladder.timeout.count() > 0) options.timeout = options.init_timeout = ladder.timeout;
  ladder.launch.init_timeout = options.init_timeout;
  const LaunchPlan plan = plan_launch(ladder.launch);
  if (plan.ranks < 2)
    throw Error(ErrorCode::invalid_argument, "a ladder needs two ranks or more: --ranks 2");
  return launch(plan, [&](Place& place) {
    const auto group =
        Communicator::create(place.store, place.rank, place.size, options, "ladder-all");
    group->set_timeout(kWaitForTheLadder);
    const int other = other_rank(*group);
    if (place.rank == 0 || place.rank == other) {
      const Ladder result = measure(ladder, options, *group, other, place.store);
      if (place.rank == 0) report(ladder, result);
    } else {
      gather_texts(*group, host_name());  // with those two
    }
    finish(group->barrier());
    place.store.reset();
    place.met();
    return 0;
  });
}

}  // namespace ringwood::tools
