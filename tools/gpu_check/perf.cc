// Times of collectives of 8 B and more, in the columns of nccl-tests, beside what the device can do
// at all: its own copy rate, the cost of a launch, the way of a flag. With one GPU its two ranks
// are threads of this process; with several, each has one.
#include <fmt/format.h>

#include <mutex>

#include "collectives/kernels/types.h"
#include "tools/gpu_check/findings.h"
#include "tools/gpu_check/perf_trial.h"
#include "transports/cuda/check.h"

namespace ringwood::gpu_check {
namespace {

using nlohmann::ordered_json;

constexpr size_t kSmallest = 8;
constexpr size_t kFactor = 2;         // from one size to the next
constexpr size_t kReserve = 1 << 30;  // bytes of the device for what else there is

const Collective kMeasured[] = {Collective::all_reduce, Collective::all_gather,
                                Collective::reduce_scatter, Collective::broadcast,
                                Collective::all_to_all};

// Bytes of the largest buffer for which all ranks of a device have room.
size_t largest_that_fits(const cuda::Driver& driver, int ranks, size_t wanted) {
  const int devices = device_count(driver);
  const auto on_one = static_cast<size_t>((ranks + devices - 1) / devices);
  for (int ordinal = 0; ordinal < std::min(devices, ranks); ++ordinal) {
    const cuda::Device device(driver, ordinal);
    const cuda::CurrentContext current(device);
    size_t free = 0, total = 0;
    device.require(driver.context.free_memory(&free, &total), "cuMemGetInfo");
    // Four buffers, and what is rounded up.
    while (wanted > kSmallest && wanted * 5 * on_one + kReserve > free) wanted /= kFactor;
  }
  return wanted;
}

// Bytes read and written in a second, by the driver's own copy.
double copy_rate(const GpuRank& rank, size_t bytes) {
  const cuda::CurrentContext current(rank.device);
  const cuda::Driver& driver = rank.device.driver();
  cuda::Event start(rank.device, cuda::Event::Timing::on),
      end(rank.device, cuda::Event::Timing::on);
  constexpr int kTurns = 10;
  for (int turn = -2; turn < kTurns; ++turn) {
    if (turn == 0) start.record(rank.stream.get());
    rank.device.require(
        driver.memory.copy(rank.output(GpuRank::Kind::plain), rank.input(GpuRank::Kind::plain),
                           bytes, rank.stream.get()),
        "cuMemcpyAsync");
  }
  end.record(rank.stream.get());
  end.synchronize();
  return 2.0 * static_cast<double>(bytes) * kTurns / (end.milliseconds_since(start) * 1e-3);
}

ordered_json row_of(Collective collective, size_t bytes, const Way& way, const Measured& best,
                    int n) {
  const double rate = static_cast<double>(bytes) / best.seconds / 1e9;
  ordered_json row = {{"collective", to_string(collective)},
                      {"size", bytes},
                      {"count", bytes / sizeof(float)},
                      {"type", "float"},
                      {"redop", reduces(collective) ? "sum" : "none"},
                      {"root", has_root(collective) ? 0 : -1},
                      {"time_us", best.seconds * 1e6},
                      {"algbw_GB_s", rate},
                      {"busbw_GB_s", rate * traits_of(collective).bus_factor(n)},
                      {"wrong", best.wrong},
                      {"algorithm", way.row},
                      {"segments", way.segments},
                      {"packets", way.packets}};
  if (best.graph_seconds > 0) row["graph_us"] = best.graph_seconds * 1e6;
  return row;
}

// Written by rank 0 only.
struct Results {
  ordered_json rows = ordered_json::array(), figures = ordered_json::object();
};

std::string measure(const GpuRank& rank, const Settings& settings, size_t largest,
                    Results* results) {
  Trial trial(rank, settings.repetitions);
  const int n = rank.group.size();
  for (const Collective collective : kMeasured)
    for (size_t bytes = kSmallest; bytes <= largest; bytes *= kFactor) {
      const size_t unit =
          in_blocks(collective) ? sizeof(float) * static_cast<size_t>(n) : sizeof(float);
      const size_t used = std::max(bytes / unit, size_t{1}) * unit;
      Measured best;
      Way way;
      for (const Way& one : ways(collective, used, n)) {
        const Measured found = trial.measure(collective, used, one, GpuRank::Kind::mapped);
        if (!found.error.empty())
          return fmt::format("{} of {} B by {}: {}", to_string(collective), used, one.row,
                             found.error);
        if (best.seconds > 0 && found.seconds > best.seconds) continue;
        best = found;
        way = one;
      }
      if (results) results->rows.push_back(row_of(collective, used, way, best, n));
      if (best.wrong > 0)
        return fmt::format("{} of {} B by {}: {} wrong elements", to_string(collective), used,
                           way.row, best.wrong);
    }
  const Way large = ways(Collective::all_reduce, largest, n).back();
  // Staged, it goes in pieces.
  double seconds[2] = {};
  for (const GpuRank::Kind kind : {GpuRank::Kind::mapped, GpuRank::Kind::plain}) {
    const Measured found = trial.measure(Collective::all_reduce, largest, large, kind);
    if (!found.error.empty()) return found.error;
    if (found.wrong > 0)
      return fmt::format("{} of {} B has {} wrong elements", large.row, largest, found.wrong);
    seconds[kind == GpuRank::Kind::plain] = found.seconds;
  }
  if (!results) return "";
  results->figures["largest"] = largest;
  results->figures["mapped_us"] = seconds[0] * 1e6;
  results->figures["staged_us"] = seconds[1] * 1e6;
  results->figures["staged_of_mapped"] = seconds[0] / seconds[1];
  return "";
}

device::DeviceOptions options_of_perf() {
  device::DeviceOptions options;
  options.segments = kBlocksOfPerf;
  options.packet_bytes = 1 << 20;  // of one_shot among 8 ranks
  options.limit = std::chrono::seconds(20);
  return options;
}

// One rank has nobody to wait for: what it takes is the launch, and the interpreter's own part with
// a copy in and one out.
std::string measure_alone(const cuda::Driver& driver, const Settings& settings, Results& results) {
  return on_threads(1, [&](Communicator& group) -> std::string {
    const GpuRank rank(group, driver, 0, options_of_perf(), 4096);
    const std::vector<Way> all = ways(Collective::all_reduce, kSmallest, 1);
    if (all.empty()) return "";
    Trial trial(rank, settings.repetitions);
    const Measured found =
        trial.measure(Collective::all_reduce, kSmallest, all.front(), GpuRank::Kind::plain);
    results.figures["launch_us"] = found.seconds * 1e6;
    results.figures["launch_in_graph_us"] = found.graph_seconds * 1e6;
    return found.error;
  });
}

void add_figures(Results& results, int n) {
  ordered_json& figures = results.figures;
  for (const ordered_json& row : results.rows) {
    if (row["collective"] != "all_reduce") continue;
    if (row["size"] == kSmallest) {
      figures["smallest_us"] = row["time_us"];
      figures["smallest_in_graph_us"] = row["graph_us"];
      // Two ways of a flag or of a packet lie in an exchange of hellos; here they overlap.
      if (figures.contains("launch_in_graph_us"))
        figures["flag_us"] =
            row["graph_us"].get<double>() - figures["launch_in_graph_us"].get<double>();
    }
    if (row["size"] == figures["largest"]) {
      // Each rank reads and writes all of the buffer once.
      const double moved =
          2.0 * n * row["size"].get<double>() / (row["time_us"].get<double>() * 1e-6);
      figures["moved_of_copy"] = moved / figures["copy_bytes_s"].get<double>();
    }
  }
}

}  // namespace

void perf(const cuda::Driver& driver, const Settings& settings, Findings& findings) {
  const int devices = device_count(driver);
  const int n = std::clamp(devices, 2, 8);
  Results results;
  findings.check("one rank", [&] { return measure_alone(driver, settings, results); });
  findings.check(fmt::format("{} ranks", n), [&]() -> std::string {
    if (std::string why = does_not_fit(driver, n, kBlocksOfPerf); !why.empty()) return why;
    const size_t largest = largest_that_fits(driver, n, settings.largest);
    return on_threads(n, [&](Communicator& group) {
      const GpuRank rank(group, driver, group.rank() % devices, options_of_perf(), largest);
      if (group.rank() == 0) results.figures["copy_bytes_s"] = copy_rate(rank, largest);
      if (const Status all = group.barrier()->wait(); !all) return all.error().message();
      return measure(rank, settings, largest, group.rank() == 0 ? &results : nullptr);
    });
  });
  if (findings.ok()) add_figures(results, n);
  findings.tell("ranks", n);
  findings.tell("devices", std::min(n, devices));
  findings.tell("figures", results.figures);
  findings.tell("rows", results.rows);
}

}  // namespace ringwood::gpu_check
