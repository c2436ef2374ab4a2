// Whether memory is shared, described and forbidden as on the double of the driver.
#include <sys/wait.h>
#include <unistd.h>

#include "tools/gpu_check/driver_rules.h"
#include "tools/gpu_check/findings.h"
#include "tools/gpu_check/processes.h"
#include "transports/shm/unix_socket.h"

namespace ringwood::gpu_check {
namespace {

constexpr uint64_t kPattern = 0x1122334455667788;

Deadline patiently() { return Deadline::after(std::chrono::seconds(20)); }

// A peer's mapping keeps the memory when the exporter's arena has ended.
std::string shares_between_threads(const cuda::Device& device) {
  auto arena = std::make_unique<cuda::DeviceArena>(device, 1);
  std::vector<cuda::SharedPart> parts(1);
  parts[0] = {arena->share(), arena->bytes()};
  set_word(device, arena->base(), kPattern);
  std::string wrong;
  std::jthread([&] {
    try {
      const cuda::PeerArena peer(device, parts);
      if (peer.base() == arena->base()) wrong = "two mappings have one address";
      arena.reset();
      if (wrong.empty()) wrong = expect(word_at(device, peer.base()), kPattern);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  }).join();
  return wrong;
}

std::string shares_with_a_process(const cuda::Device& device, const std::string& program) {
  const cuda::DeviceArena arena(device, 1);
  set_word(device, arena.base(), kPattern);
  Process peer(program, {"one-rank", "role=map"});
  const OwnedFd fd = arena.share();
  const int number = fd.get();
  const uint64_t bytes = arena.bytes();
  shm::send_message(peer.socket(), &bytes, sizeof bytes, {&number, 1}, patiently());
  if (const std::string said = peer.line(30); said != "right")
    return said.empty() ? "the other process has ended without a word" : said;
  return expect(word_at(device, arena.base()), kPattern + 1);
}

std::string has_a_granularity(const cuda::Device& device) {
  const size_t unit = cuda::granularity(device);
  if (unit == 0 || (unit & (unit - 1)) != 0) return "it is " + std::to_string(unit);
  const cuda::DeviceArena arena(device, unit + 1);
  return expect(arena.bytes(), 2 * unit);
}

// share_range() takes an allocation's extent from it.
std::string knows_ranges(const cuda::Device& device) {
  const cuda::DeviceArena arena(device, 2 * cuda::granularity(device));
  const cuda::CurrentContext current(device);
  cuda::CUdeviceptr base = 0;
  size_t bytes = 0;
  device.require(device.driver().memory.address_range(&base, &bytes, arena.base() + 4096),
                 "cuMemGetAddressRange");
  if (base != arena.base() || bytes != arena.bytes())
    return "of an address in mapped memory, it does not tell the mapping";
  const cuda::SharedRange range = cuda::share_range(device, arena.base() + 4096, 100);
  if (range.parts.size() != 1 || range.offset != 4096) return "a buffer's allocation is not found";
  const cuda::PeerArena peer(device, range.parts);
  set_word(device, arena.base() + 4096, kPattern);
  return expect(word_at(device, peer.base() + range.offset), kPattern);
}

std::string pins_host_memory(const cuda::Device& device) {
  const cuda::PinnedMemory memory(device, 4096);
  auto& word = *reinterpret_cast<uint64_t*>(memory.data());
  if (word != 0) return "it is not zeroed";
  word = kPattern;
  if (const std::string wrong = expect(word_at(device, memory.on_device()), kPattern);
      !wrong.empty())
    return wrong;
  set_word(device, memory.on_device(), 5);
  return expect(std::atomic_ref<uint64_t>(word).load(), 5);
}

// The last check: it forks.
std::string is_refused_in_a_fork(const cuda::Device& device) {
  const pid_t child = ::fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    // Ours says so without a call of the driver; NVIDIA's must refuse a context by itself.
    const bool ours = !cuda::load().ok() && !device.driver().usable();
    cuda::CUcontext context = nullptr;
    const bool theirs =
        device.driver().device.retain_primary_context(&context, 0) != cuda::CUDA_SUCCESS;
    ::_exit(ours ? theirs ? 0 : 2 : 1);
  }
  int status = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return "the driver hangs in a child of fork()";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
    return "the driver gives a child of fork() a context";
  return "a child of fork() is not refused, or died of it";
}

}  // namespace

void memory_rules(const cuda::Device& device, const std::string& program, Findings& findings) {
  const auto check = [&](const char* name, std::string (*look)(const cuda::Device&)) {
    findings.check(name, [&] { return look(device); });
  };
  check("sizes are multiples of the granularity", has_a_granularity);
  check("memory is shared between threads by descriptor", shares_between_threads);
  findings.check("memory is shared with a process by descriptor",
                 [&] { return shares_with_a_process(device, program); });
  check("cuMemGetAddressRange knows mapped memory", knows_ranges);
  check("pinned memory is the device's, too", pins_host_memory);
  check("a child of fork() is refused", is_refused_in_a_fork);
}

void driver_rules(const cuda::Driver& driver, const Settings& settings, Findings& findings) {
  std::unique_ptr<cuda::Device> device;
  findings.check("a device's context", [&] {
    device = std::make_unique<cuda::Device>(driver, 0);
    return std::string();
  });
  if (!device) return;
  stream_rules(*device, findings);
  memory_rules(*device, settings.program, findings);
}

}  // namespace ringwood::gpu_check
