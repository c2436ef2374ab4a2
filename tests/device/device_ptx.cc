#include "tests/device/device_ptx.h"

#include <vector>

#include <fmt/format.h>

namespace ringwood::testing {
namespace {

class Ranks final {
 public:
  Ranks(const ptx::Module& module, DeviceRanks& ranks, int rounds, int threads, uint64_t seed,
        uint64_t limit)
      : ranks_(ranks), rounds_(rounds), threads_(threads), machine_(module, {seed, limit}) {
    for (const DeviceRanks::Range& range : ranks.all_memory())
      machine_.map(range.name, range.base, range.bytes);
    for (int rank = 0; rank < ranks.ranks(); ++rank)
      streams_.emplace_back(machine_, fmt::format("rank {}", rank), rank,
                            ranks.segments() * threads);
    round_.assign(streams_.size(), 0);
  }

  void run() {
    for (size_t rank = 0; rank < streams_.size(); ++rank) begin(rank);
    while (machine_.running() && wrong.empty()) {
      const ptx::Thread* const ended = machine_.step();
      if (!ended) continue;
      for (size_t rank = 0; rank < streams_.size(); ++rank)
        if (streams_[rank].ended(*ended)) end(rank);
    }
    if (const std::string reported = ranks_.reported(); !reported.empty()) wrong = reported;
  }

  std::string wrong;
  const ptx::Machine& machine() const { return machine_; }

 private:
  void begin(size_t rank) {
    const int at = static_cast<int>(rank), round = round_[rank];
    for (const DeviceRanks::Range& range : ranks_.user_memory(at, round))
      if (range.bytes > 0) streams_[rank].write(range.base, range.bytes);
    ranks_.write(at, round);
    streams_[rank].launch({ranks_.kernel(), std::as_bytes(std::span(&ranks_.launch(at, round), 1)),
                           ranks_.segments(), threads_});
  }
  void end(size_t rank) {
    const int at = static_cast<int>(rank), round = round_[rank];
    for (const DeviceRanks::Range& range : ranks_.user_memory(at, round))
      if (range.bytes > 0) streams_[rank].read(range.base, range.bytes);
    if (wrong.empty()) wrong = ranks_.check(at, round);
    if (++round_[rank] < rounds_) begin(rank);
  }

  DeviceRanks& ranks_;
  const int rounds_, threads_;
  ptx::Machine machine_;
  std::vector<ptx::Stream> streams_;
  std::vector<int> round_;  // by rank
};

}  // namespace

PtxRun run_on_ptx(const ptx::Module& module, DeviceRanks& ranks, int rounds, int threads_per_block,
                  uint64_t seed, uint64_t limit) {
  Ranks run(module, ranks, rounds, threads_per_block, seed, limit);
  PtxRun result;
  try {
    run.run();
    result.wrong = run.wrong;
  } catch (const ptx::Fault& fault) {
    result.wrong = fault.what();
  }
  if (!result.wrong.empty()) result.wrong += fmt::format(" (seed {})", seed);
  result.instructions = run.machine().executed();
  result.stale = run.machine().stale();
  return result;
}

}  // namespace ringwood::testing
