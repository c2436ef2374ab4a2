// All rows, types, operations and odd addresses, on ranks that are threads of one process, and a
// few of them on ranks that are processes: the bytes must be those of the CPU's executors.
#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/types.h"
#include "tools/gpu_check/findings.h"
#include "tools/gpu_check/gpu_rank.h"
#include "tools/gpu_check/processes.h"
#include "tools/gpu_check/rank_cases.h"

namespace ringwood::gpu_check {
namespace {

constexpr DataType kMoved[] = {DataType::uint8, DataType::int16, DataType::float32, DataType::int64,
                               DataType::complex128};

// What a case has besides its row, type and operation goes round.
Case turned(const AlgorithmRow& row, DataType type, ReduceOp op, int n, unsigned turn) {
  static constexpr size_t kCounts[] = {1, 3, 129, 1000, 4097};
  static constexpr size_t kShifts[] = {0, 1, 0, 3};
  Case of{row.collective, row.name, kCounts[turn % 5], type, op};
  of.root = has_root(row.collective) ? static_cast<int>(turn % static_cast<unsigned>(n)) : 0;
  of.segments = 1 + static_cast<int>(turn / 5 % 4);
  of.packets = of.count < 1000 && turn / 3 % 2 == 1;
  of.mapped = turn / 2 % 3 != 0;
  of.shift = kShifts[turn / 7 % 4] * size_of(type);
  return of;
}

}  // namespace

std::vector<Case> cases_of(int n, int thin) {
  std::vector<Case> all;
  unsigned turn = static_cast<unsigned>(n);
  const auto add = [&](const AlgorithmRow& row, DataType type, ReduceOp op) {
    if (++turn % static_cast<unsigned>(thin) == 0) all.push_back(turned(row, type, op, n, turn));
  };
  for (const AlgorithmRow& row : algorithm_table()) {
    if (!moves_data(row.collective) || !row.accepts(n)) continue;
    if (!reduces(row.collective)) {
      for (const DataType type : kMoved) add(row, type, ReduceOp::sum);
      continue;
    }
    for (const TypeTraits& type : kTypeTraits)
      for (const OpTraits& op : kOpTraits)
        if (supports(type.type, op.op)) add(row, type.type, op.op);
  }
  return all;
}

std::string run_cases(Communicator& group, const cuda::Driver& driver, int ordinal, int thin) {
  const std::vector<Case> cases = cases_of(group.size(), thin);
  device::DeviceOptions options;
  options.segments = kBlocksOfCases;
  options.staging_bytes = size_t{2} << 20;
  options.packet_bytes = 64 << 10;
  options.limit = std::chrono::seconds(20);
  const GpuRank rank(group, driver, ordinal, options,
                     static_cast<size_t>(group.size()) * 4200 * 16);
  uint64_t seed = 0;
  for (const Case& of : cases) {
    Bytes input(input_bytes(of, group));
    draw(input, of.type, ++seed * 64 + static_cast<uint64_t>(group.rank()));
    if (std::string wrong = compare(rank, of, std::move(input)); !wrong.empty()) return wrong;
  }
  return "";
}

void ranks_as_threads(const cuda::Driver& driver, const Settings& settings, Findings& findings) {
  const int devices = device_count(driver);
  for (const int n : settings.ranks) {
    const std::string name = fmt::format("{} ranks", n);
    if (std::string why = does_not_fit(driver, n, kBlocksOfCases); !why.empty()) {
      findings.skip(name, why);
      continue;
    }
    findings.check(name, [&] {
      return on_threads(n, [&](Communicator& group) {
        return run_cases(group, driver, group.rank() % devices, settings.thin);
      });
    });
    findings.tell(fmt::format("cases_of_{}", n), cases_of(n, settings.thin).size());
  }
  findings.tell("resident_blocks", resident_blocks(driver, 0));
}

void ranks_as_processes(const cuda::Driver& driver, const Settings& settings, Findings& findings) {
  const int n = std::max(2, std::min(device_count(driver), 8));
  // Of one device they run in turns, each for a slice of time.
  const int thin = settings.thin * (device_count(driver) == 1 ? 40 : 10);
  findings.check(fmt::format("{} processes", n), [&]() -> std::string {
    const Folder folder;
    std::vector<std::unique_ptr<Process>> ranks;
    for (int rank = 0; rank < n; ++rank)
      ranks.push_back(std::make_unique<Process>(
          settings.program,
          std::vector<std::string>{"one-rank", "role=compare", "folder=" + folder.path(),
                                   fmt::format("rank={}", rank), fmt::format("size={}", n),
                                   fmt::format("thin={}", thin)}));
    std::string wrong;
    for (int rank = 0; rank < n; ++rank)
      if (const std::string said = ranks[static_cast<size_t>(rank)]->line(45);
          said != "right" && wrong.empty())
        wrong = fmt::format("rank {} of {}: {}", rank, n,
                            said.empty() ? "has ended, or said nothing for 45 s" : said);
    return wrong;
  });
  findings.tell("cases", cases_of(n, thin).size());
}

}  // namespace ringwood::gpu_check
