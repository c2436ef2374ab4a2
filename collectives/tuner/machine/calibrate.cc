#include "collectives/tuner/machine/calibrate.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <hwy/cache_control.h>

#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire.h"
#include "collectives/plan/buffers.h"
#include "collectives/tuner/machine/calibrate_parts.h"
#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/input_file.h"
#include "transports/base/numa.h"
#include "transports/base/thread.h"

namespace ringwood {
namespace {

using std::chrono::milliseconds;

// ---- the host ----------------------------------------------------------------------------------

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(InputFile(path), line);
  return line;
}

// "1024K"; 0 where the kernel does not say, as on some virtual machines.
size_t cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string at = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    if (first_line(at + "level") != std::to_string(level) ||
        first_line(at + "type") == "Instruction")
      continue;
    const std::string size = first_line(at + "size");
    const size_t unit = size.empty()         ? 0
                        : size.back() == 'K' ? 1 << 10
                        : size.back() == 'M' ? 1 << 20
                                             : 1;
    return unit * static_cast<size_t>(std::strtoull(size.c_str(), nullptr, 10));
  }
  const long bytes = ::sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

struct Caches {
  size_t l2, l3;
};
Caches caches() {
  const size_t l2 = std::max<size_t>(cache_bytes(2), 128 << 10);
  return {l2, std::max(cache_bytes(3), 2 * l2)};
}

// Every processor that this job may use, even if this rank was given only one of them: the
// parameters of a host are the same for all its ranks. Changes the calling thread's affinity.
std::vector<int> all_processors() {
  cpu_set_t set;
  std::memset(&set, 0xff, sizeof set);
  ::sched_setaffinity(0, sizeof set, &set);  // the kernel keeps it within the job's set
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
  return processors;
}

// Reorders them so that the second is on another core of the first one's memory node, if
// there is one.
void separate(std::vector<int>& processors) {
  const auto core = [](int cpu) {
    const std::string at = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    return first_line(at + "physical_package_id") + "/" + first_line(at + "core_id");
  };
  const std::string first = core(processors[0]);
  const std::vector<int> nodes = numa_nodes(processors);
  for (size_t i = 1; i < processors.size(); ++i) {
    if (core(processors[i]) == first || nodes[i] != nodes[0]) continue;
    std::swap(processors[1], processors[i]);
    return;
  }
}

// ---- memory ------------------------------------------------------------------------------------

class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw Error(ErrorCode::system, "calibration: " + system_message("mmap"));
    ::madvise(p, bytes, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(p);
    for (size_t at = 0; at < bytes; at += 4096) data_[at] = std::byte{0};
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_;
};

using Kernel = void (*)(std::byte* dst, const std::byte* src, size_t bytes);
void copy(std::byte* dst, const std::byte* src, size_t bytes) { move_bytes(dst, src, bytes); }
void add(std::byte* dst, const std::byte* src, size_t bytes) {
  reduce(dst, src, bytes / sizeof(float), DataType::float32, ReduceOp::sum);
}

template <WireFormat kFormat>
void encode_all(std::byte* dst, const std::byte* src, size_t bytes) {
  encode(kFormat, dst, reinterpret_cast<const float*>(src), bytes / sizeof(float));
}
template <WireFormat kFormat>
void decode_all(std::byte* dst, const std::byte* src, size_t bytes) {
  decode_add(kFormat, reinterpret_cast<float*>(dst), src, bytes / sizeof(float));
}

// Bytes/s of the best of several passes over a working set, which copy one half of it
// into the other.
double rate(std::byte* data, size_t working_set, Kernel kernel, int passes, Duration budget) {
  const size_t half = (working_set / 2) & ~size_t{63};
  const Deadline deadline = Deadline::after(budget);
  double best = 1e9;
  for (int pass = 0; pass < passes && !(pass > 1 && deadline.passed()); ++pass) {
    const auto begin = Clock::now();
    kernel(data + half, data, half);
    best = std::min(best, seconds_since(begin));
  }
  return static_cast<double>(half) / std::max(best, 1e-9);
}

// The rate of each of two cores that work at the same time, as ranks do: they share a cache, and on
// some machines, announced or not, a whole core. That of one core where there is only one or the
// other is busy.
double rate_of_two(const Pages& pages, size_t working_set, const std::vector<int>& cpus,
                   Kernel kernel, int passes, Duration budget) {
  const size_t half = (working_set / 2) & ~size_t{63};
  // Repeated so often that the synchronization is negligible.
  const size_t times = 1 + (256 << 10) / half;
  double best = std::numeric_limits<double>::infinity();
  if (cpus.size() > 1)
    best = best_together(cpus[0], cpus[1], passes, budget, [&](int who) {
      std::byte* data = pages.data() + static_cast<size_t>(who) * (pages.bytes() / 2);
      for (size_t i = 0; i < times; ++i) kernel(data + half, data, half);
    });
  if (std::isinf(best)) return rate(pages.data(), working_set, kernel, passes, budget);
  return static_cast<double>(half * times) / std::max(best, 1e-9);
}

// The first touch of a set larger than the last cache takes too long where a page costs
// microseconds. So a small set is flushed out of all caches instead. What is written back later is
// not measured: up to a third of the traffic, since a line written is read before; a quarter by
// what bench/choice finds for 64 MiB.
constexpr double kSeen = 3.0 / 4;
constexpr bool kFlushes = HWY_ARCH_X86 == 1;  // elsewhere FlushCacheline() is empty

void flush(const std::byte* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) hwy::FlushCacheline(data + at);
}

double rate_from_memory(std::byte* data, size_t bytes, Kernel kernel) {
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    flush(data, bytes);
    best = std::max(best, rate(data, bytes, kernel, 1, {}));
  }
  return best * kSeen;
}

// All cores at the same time, each on its own part; fewer cores where no more threads
// can be started.
double rate_together(const Pages& pages, size_t most, const std::vector<int>& cpus) {
  constexpr size_t kMaxThreads = 8;
  std::atomic<size_t> count = std::min(cpus.size(), kMaxThreads), there{0};
  const size_t part = (std::min(pages.bytes(), most) / count) & ~size_t{4095};
  std::vector<double> rates(count, 0);
  std::vector<std::thread> threads;
  const auto meet = [&](size_t turn) {
    for (there.fetch_add(1); there.load() < count * turn;) ::sched_yield();
  };
  const auto work = [&](size_t i) {
    const Pinned pinned(cpus[i]);
    std::byte* data = pages.data() + i * part;
    for (size_t pass = 1; pass <= 3; ++pass) {
      flush(data, part);
      meet(pass);
      rates[i] = std::max(rates[i], rate(data, part, copy, 1, {}));
    }
  };
  try {
    for (size_t i = 0; i < rates.size(); ++i)
      threads.push_back(start_thread("rw-calibrate", [&, i] { work(i); }));
  } catch (const Error&) {
    if (threads.empty()) throw;
    count = threads.size();
  }
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0) * kSeen;
}

void measure_codecs(MachineModel& machine, std::byte* data, size_t working_set, int cpu) {
  const Pinned pinned(cpu);
  const std::pair<double&, Kernel> codecs[] = {{machine.bf16.encode, encode_all<WireFormat::bf16>},
                                               {machine.bf16.decode, decode_all<WireFormat::bf16>},
                                               {machine.int8.encode, encode_all<WireFormat::int8>},
                                               {machine.int8.decode, decode_all<WireFormat::int8>}};
  for (const auto& [parameter, codec] : codecs)
    parameter = rate(data, working_set, codec, 20, milliseconds(1));
}

// Measures how much of its last cache the host can use: a virtual machine's cores may be on two
// such caches, and others may use them, too. Derived from how fast a copy of the nominal size of
// the cache is; see cached_part() in cost_prices.cc.
void measure_l3(MachineModel& machine, const Pages& pages, const std::vector<int>& cpus) {
  const auto half = static_cast<size_t>(machine.l3_bytes) / 2;
  const double seconds = 1 / rate_of_two(pages, half, cpus, copy, 8, milliseconds(4));
  const double fast = 1 / machine.copy.l3,
               slow = std::max(1 / machine.copy.dram, 2 / machine.memory);
  const double found = std::clamp((slow - seconds) / (slow - fast), 0.1, 0.9);
  machine.l3_bytes *= std::cbrt(found / (1 - found));
}

bool measure_here(MachineModel& machine) {
  const MachineModel usual;
  const Deadline deadline = Deadline::after(milliseconds(44));
  std::vector<int> cpus = all_processors();
  separate(cpus);
  const Caches sizes = caches();
  machine.cores = static_cast<int>(cpus.size());
  machine.l2_bytes = static_cast<double>(sizes.l2);
  machine.l3_bytes = static_cast<double>(sizes.l3);
  constexpr size_t kMinPages = 512 << 10, kMaxPages = 32 << 20;
  constexpr size_t kFlushed = 1 << 20, kTogether = 4 << 20;
  const Pages pages(std::clamp(sizes.l3, kMinPages, kMaxPages));
  std::byte* data = pages.data();
  const size_t small = std::min(sizes.l2 / 2, pages.bytes() / 2),
               large = std::min(std::max(sizes.l3 / 8, small), pages.bytes() / 2);
  const std::tuple<Rates&, const Rates&, Kernel> kernels[] = {{machine.copy, usual.copy, copy},
                                                              {machine.reduce, usual.reduce, add}};
  for (const auto& [rates, usually, kernel] : kernels) {
    const Pinned pinned(cpus[0]);
    rates.l2 = rate_of_two(pages, small, cpus, kernel, 60, milliseconds(2));
    rates.l3 = std::min(rates.l2, rate_of_two(pages, large, cpus, kernel, 24, milliseconds(4)));
    const double dram = kFlushes ? rate_from_memory(data, std::min(pages.bytes(), kFlushed), kernel)
                                 : rates.l3 * usually.dram / usually.l3;
    rates.dram = std::min(rates.l3, dram);
  }
  measure_codecs(machine, data, std::min(sizes.l2 / 2, pages.bytes()), cpus[0]);
  machine.memory =
      std::max(machine.copy.dram, kFlushes ? rate_together(pages, kTogether, cpus)
                                           : machine.copy.dram * usual.memory / usual.copy.dram);
  if (sizes.l3 <= pages.bytes() && kFlushes) measure_l3(machine, pages, cpus);
  {
    const Pinned pinned(cpus[0]);
    measure_sockets(machine, milliseconds(4));
  }
  // Until it is measured: data handed over passes through the same cache.
  machine.handed = machine.node_handed = machine.copy.l3;
  return measure_pairs(machine, cpus, data, pages.bytes(), deadline);
}

}  // namespace

std::string host_description() {
  std::string processor = "unknown processor";
  InputFile file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0 && line.rfind("CPU part", 0) != 0) continue;
    processor = line.substr(std::min(line.find(':') + 2, line.size()));
    break;
  }
  utsname name{};
  ::uname(&name);
  const Caches sizes = caches();
  return fmt::format("{}; {} cores; L2 {}; L3 {}; {} {} {}; {}", processor,
                     ::sysconf(_SC_NPROCESSORS_ONLN), sizes.l2, sizes.l3, name.sysname,
                     name.release, name.machine, simd_target());
}

MachineModel measure_host(bool* disturbed) {
  MachineModel machine;
  bool together = false;
  std::exception_ptr error;
  // On a separate thread, whose affinity need not be restored.
  std::thread thread = start_thread("rw-calibrate", [&] {
    try {
      together = measure_here(machine);
    } catch (...) {
      error = std::current_exception();
    }
  });
  thread.join();
  if (error) std::rethrow_exception(error);
  if (disturbed) *disturbed = !together;
  return machine;
}

}  // namespace ringwood
