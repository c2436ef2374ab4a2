#include <unistd.h>

#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/gather.h"
#include "tools/ladder/child.h"
#include "tools/ladder/rungs.h"
#include "transports/bootstrap/net.h"

namespace ringwood::tools {
namespace {

// Reads "BYTES TIMES" and answers with seconds, until its input ends.
constexpr const char* kScript = R"(
import sys, time
from datetime import timedelta

def fail(error):
    print("failed:", (str(error) or repr(error)).splitlines()[0], flush=True)
    sys.exit(1)

try:
    import torch
    import torch.distributed as dist
    print("found", flush=True)
    sys.stdin.readline()
    url, rank, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    dist.init_process_group(
        "ringwood", init_method=url, rank=rank, world_size=2, timeout=timedelta(seconds=seconds)
    )
    print("ready", flush=True)
except Exception as error:
    fail(error)
known = {}
for line in sys.stdin:
    size, times = map(int, line.split())
    try:
        if size not in known:
            one = torch.ones(size, dtype=torch.uint8)
            known[size] = one, torch.empty(2 * size, dtype=torch.uint8)
        one, both = known[size]
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            dist.all_gather_into_tensor(both, one)
        print((time.perf_counter() - begin) / times, flush=True)
    except Exception as error:
        fail(error)
)";

constexpr const char* kFailed = "failed: ";
constexpr auto kMaxPatience = std::chrono::milliseconds(60'000);

// The same transports and times as the other rungs, which have them from the command line.
std::vector<std::string> environment_like(const Options& options) {
  std::map<std::string, std::string> more;
  if (!options.transports.empty())
    more["RINGWOOD_TRANSPORTS"] = fmt::format("{}", fmt::join(options.transports, ","));
  return environment_of_child(more);
}

class TorchRung final : public Rung {
 public:
  TorchRung(const std::string& url, int rank, const Options& options)
      : patience_(patience_of_program(options, kMaxPatience)),
        child_({"python3", "-c", kScript, url, fmt::to_string(rank),
                fmt::format("{}", static_cast<double>(patience_.count()) * 1e-3)},
               environment_like(options), /*with_errors=*/false) {}

  void tell(const std::string& line) { (void)child_.tell(line); }
  // A line; "" where the child has ended or is too late.
  std::string answer() { return child_.line(Deadline::after(patience_)).value_or(""); }

  double exchange(size_t bytes, int times) override {
    if (!failure_.empty()) return 0;
    tell(fmt::format("{} {}\n", bytes, times));
    const std::string line = answer();
    double seconds = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), seconds);
    if (error == std::errc() && seconds > 0) return seconds;
    failure_ = line.starts_with(kFailed) ? "torch: " + line.substr(8, 200)
                                         : "the torch process has ended, or is too late";
    return 0;
  }
  bool by_programs() const override { return true; }
  std::string failure() const override { return failure_; }

 private:
  const std::chrono::milliseconds patience_;
  Child child_;
  std::string failure_;
};

// "" where both ranks' processes have said what they should.
std::string problem(const LadderPair& pair, TorchRung& rung, const std::string& wanted) {
  const std::string line = rung.answer();
  const std::string mine = line == wanted ? ""
                           : line.empty() ? "python3 with torch did not start, or not in time"
                                          : line.substr(0, 200);
  for (const std::string& text : gather_texts(pair.group, mine))
    if (!text.empty()) return text;
  return "";
}

}  // namespace

MadeRung make_torch_rung(const LadderPair& pair) {
  MadeRung made{nullptr, "all_gather_into_tensor of torch.distributed, backend ringwood", ""};
  // A port that is free now: nobody else asks for it in the next second.
  std::string port;
  if (pair.group.rank() == 0) {
    const auto listener = listen(Identity{}, pair.address, Options{});
    port = to_string(listener->address());
  }
  const std::string url = "tcp://" + gather_texts(pair.group, port)[0];
  auto rung = std::make_unique<TorchRung>(url, pair.group.rank(), pair.options);
  made.why_not = problem(pair, *rung, "found");
  if (made.why_not.empty()) {
    rung->tell("go\n");
    made.why_not = problem(pair, *rung, "ready");
  }
  if (made.why_not.empty()) made.rung = std::move(rung);
  return made;
}

}  // namespace ringwood::tools
