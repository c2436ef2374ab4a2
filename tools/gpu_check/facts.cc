#include <algorithm>
#include <chrono>

#include "tools/gpu_check/gpu_check.h"
#include "tools/gpu_check/pinned_memory.h"
#include "transports/base/clock.h"

namespace ringwood::gpu_check {
namespace {

using nlohmann::ordered_json;

constexpr size_t kSmallest = size_t{1} << 20, kLargest = size_t{256} << 20;
constexpr int kRepeats = 5;

// Microseconds of the fastest of some copies, each waited for.
template <class Copy>
double best_us(const cuda::Stream& stream, Copy copy) {
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    copy();
    stream.synchronize();
    best = std::min(best, 1e6 * seconds_since(start));
  }
  return best;
}

ordered_json copies(const cuda::Device& device) {
  const Memory memory(device, kLargest);
  const cuda::Stream stream(device);
  ordered_json rows = ordered_json::array();
  for (size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    const double out = best_us(stream, [&] { memory.copy_out(stream.get(), bytes); });
    const double in = best_us(stream, [&] { memory.copy_in(stream.get(), bytes); });
    rows.push_back({{"bytes", bytes}, {"out_us", out}, {"in_us", in}});
  }
  return rows;
}

}  // namespace

void facts(const cuda::Driver& driver, Findings& findings) {
  findings.tell("cuda", cuda::version_text(driver.version));
  ordered_json all = ordered_json::array();
  findings.check("devices", [&] {
    for (const cuda::DeviceFacts& facts : cuda::devices(driver))
      all.push_back({{"ordinal", facts.ordinal},
                     {"name", facts.name},
                     {"uuid", facts.uuid.text()},
                     {"pci", facts.pci},
                     {"sm", facts.sm},
                     {"bytes", facts.bytes},
                     {"registers_host_memory", facts.registers_host_memory}});
    return std::string();
  });
  findings.tell("devices", all);
  findings.check("copies between device 0 and pinned memory", [&] {
    const cuda::Device device(driver, 0);
    findings.tell("copies", copies(device));
    return std::string();
  });
}

}  // namespace ringwood::gpu_check
