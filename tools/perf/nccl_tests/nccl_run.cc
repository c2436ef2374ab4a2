#include "tools/perf/nccl_tests/nccl_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "tools/command/stop_request.h"
#include "tools/gather.h"
#include "tools/perf/nccl_tests/nccl_format.h"
#include "tools/perf/perf_environment.h"
#include "tools/perf/perf_memory.h"
#include "tools/perf/perf_requirements.h"

namespace ringwood::tools {
namespace {

constexpr int kWarmUpsBetweenLooks = 1000;  // at whether somebody wants to stop

std::vector<NcclRank> gather_ranks(Communicator& group, const std::vector<HostRanks>& hosts) {
  const auto texts = gather_texts(group, fmt::format("{}\n{}", ::getpid(), processor_name()));
  std::vector<NcclRank> ranks(texts.size());
  for (const HostRanks& host : hosts) {
    for (size_t place = 0; place < host.ranks.size(); ++place) {
      const auto rank = static_cast<size_t>(host.ranks[place]);
      const size_t end = texts[rank].find('\n');
      ranks[rank] = {host.ranks[place], std::atoi(texts[rank].c_str()), static_cast<int>(place),
                     host.name, end == std::string::npos ? "" : texts[rank].substr(end + 1)};
    }
  }
  return ranks;
}

NcclHead head_of(const PerfOptions& perf, std::vector<NcclRank> ranks) {
  NcclHead head;
  head.program = nccl_program(*perf.operations.front());
  head.arguments = command_line();
  head.ranks = std::move(ranks);
  return head;
}

class NcclRun {
 public:
  NcclRun(const PerfOptions& perf, double tolerance, Communicator& group)
      : perf_(perf),
        tolerance_(tolerance),
        group_(group),
        row_(*perf.operations.front()),
        hosts_(gather_hosts(group)),
        floor_(perf.min_busbw),
        sizes_(perf.sizes) {
    const size_t most = memory_of_rank(group, hosts_) / NcclCall::buffers(row_);
    const bool reduced = !sizes_.empty() && sizes_.back() > most;
    if (reduced) {
      std::erase_if(sizes_, [&](size_t bytes) { return bytes > most; });
      if (sizes_.empty()) sizes_ = {most};
    }
    NcclHead head = head_of(perf, gather_ranks(group, hosts_));
    if (reduced) head.reduced_bytes = most;
    if (group.rank() == 0) report_ = std::make_unique<NcclTestsReport>(std::move(head), *perf.nccl);
  }

  bool all() {
    if (perf_.repeats()) stop_.emplace();
    sweeps();
    stop_.reset();
    int64_t well = report_ == nullptr || report_->end();
    well = meets_demands() && well != 0;
    finish(group_.all_reduce(&well, 1, DataType::int64, ReduceOp::min, synchronous_call()));
    return well != 0;
  }

 private:
  void sweeps() {
    for (const DataType type : perf_.types) {
      for (const ReduceOp op : row_.reduces() ? perf_.ops : std::vector{perf_.ops.front()}) {
        if (row_.collective && !supports(*row_.collective, type, op)) continue;
        for (const int root : row_.rooted() ? roots_of(perf_, group_.size()) : std::vector{0})
          if (!sweep(type, op, root)) return;
      }
    }
  }

  // --min-busbw and --require; the same on all ranks. The sentences go to standard error, so that
  // parsers of the table see nothing new.
  bool meets_demands() const {
    std::vector<std::string> failed{floor_.why()};
    if (!perf_.require.empty()) failed.push_back(other_transport(group_, hosts_, perf_.require));
    std::erase(failed, "");
    for (const std::string& why : failed)
      if (report_) fmt::print(stderr, "ringwood: {}\n", why);
    return failed.empty();
  }

  Call call_of(DataType type, ReduceOp op, int root, size_t bytes) const {
    Call call{&group_,
              type,
              op,
              root,
              nccl_count(row_, bytes, type, group_.size()),
              nullptr,
              nullptr,
              perf_.call_options()};
    if (row_.reduces()) call.options.factor = Pattern::factor(op, group_.rank());
    return call;
  }

  bool stops() const { return stop_ && at_any_rank(group_, stop_->asked()); }

  // False: somebody wants to stop, which a table that is repeated lets them.
  bool sweep(DataType type, ReduceOp op, int root) {
    const Pattern pattern = row_.reduces() ? Pattern(type, op, group_.size(), tolerance_)
                                           : Pattern(type, group_.size());
    if (sizes_.empty()) return true;
    const auto shift = static_cast<size_t>(perf_.nccl->unalign);
    for (size_t bytes = sizes_.front(); bytes <= sizes_.back(); bytes *= 2) {
      NcclCall call(row_, call_of(type, op, root, bytes), perf_.memory, shift);
      for (int left = perf_.nccl->warmup; left > 0; left -= kWarmUpsBetweenLooks) {
        if (stops()) return false;
        warm_up(call, std::min(left, kWarmUpsBetweenLooks));
      }
    }
    for (int cycle = 0; perf_.cycles == 0 || cycle < perf_.cycles; ++cycle) {
      for (const size_t bytes : sizes_) {
        if (stops()) return false;
        NcclCall call(row_, call_of(type, op, root, bytes), perf_.memory, shift);
        measure(call,
                {call.reported_bytes(), call.count(), nccl_name(type), nccl_name(row_, op),
                 row_.rooted() ? root : -1},
                pattern);
      }
    }
    return true;
  }

  void measure(NcclCall& call, const NcclLine& line, const Pattern& pattern) {
    if (report_) report_->begin(line);
    for (const bool in_place : {false, true}) {
      call.set_in_place(in_place);
      const NcclSide side = measure_side(call, pattern, *perf_.nccl);
      if (report_) report_->add(side, in_place);
      if (line.bytes > 0)
        floor_.add(fmt::format("{} of {} B {}", row_.name(), line.bytes,
                               in_place ? "in place" : "out of place"),
                   side.bus_bw);
    }
    if (report_) report_->end_line();
  }

  const PerfOptions& perf_;
  const double tolerance_;
  Communicator& group_;
  const OperationRow& row_;
  const std::vector<HostRanks> hosts_;
  BusbwFloor floor_;
  std::vector<size_t> sizes_;  // that the memory is enough for
  std::unique_ptr<NcclTestsReport> report_;
  std::optional<StopRequest> stop_;  // where the table is repeated
};

}  // namespace

void validate_nccl_tests(const PerfOptions& perf, int ranks) {
  if (perf.operations.size() != 1)
    refuse("--format nccl-tests has one collective; name one, or leave --format away");
  const OperationRow& row = *perf.operations.front();
  if (!row.moves_data()) refuse(fmt::format("nccl-tests has no {}_perf", row.name()));
  if (!row.collective && ranks == 1) refuse(fmt::format("{} needs at least 2 ranks", row.name()));
  if (perf.compares())
    refuse("--format nccl-tests has one algorithm at a time; leave --format away to compare");
  if (perf.trial.touch) refuse("--touch does not go with --format nccl-tests");
  if (perf.report.csv || perf.report.json || perf.report.html)
    refuse("--format nccl-tests has its own JSON, -J FILE; leave --format away for ours");
}

bool run_nccl_tests(const PerfOptions& perf, double tolerance, Communicator& group) {
  return NcclRun(perf, tolerance, group).all();
}

}  // namespace ringwood::tools
