// Whether streams, events and graphs keep the order that the double of the driver keeps.
#include "tools/gpu_check/driver_rules.h"
#include "tools/gpu_check/findings.h"

namespace ringwood::gpu_check {
namespace {

// A pinned word for each of a check's results, as host and device see them.
class Words final {
 public:
  explicit Words(const cuda::Device& device) : device_(device), memory_(device, 512) {}
  cuda::CUdeviceptr at(int i) const { return memory_.on_device() + 8 * static_cast<size_t>(i); }
  uint64_t value(int i) const {
    return std::atomic_ref<uint64_t>(reinterpret_cast<uint64_t*>(memory_.data())[i])
        .load(std::memory_order_acquire);
  }
  void set(cuda::CUstream on, int i, unsigned char byte) const {
    const cuda::CurrentContext current(device_);
    device_.require(device_.driver().memory.fill(at(i), byte, 1, on), "cuMemsetD8Async");
  }
  void copy(cuda::CUstream on, int to, int from) const {
    const cuda::CurrentContext current(device_);
    device_.require(device_.driver().memory.copy(at(to), at(from), 8, on), "cuMemcpyAsync");
  }

 private:
  const cuda::Device& device_;
  const cuda::PinnedMemory memory_;
};

std::string keeps_order(const cuda::Device& device) {
  const Words words(device);
  const cuda::Stream one(device), other(device, cuda::Stream::Priority::high);
  Gate gate(device, one.get());
  words.set(one.get(), 0, 7);
  words.set(other.get(), 1, 5);
  other.synchronize();
  if (words.value(1) != 5) return "a stream waited for another one";
  if (one.idle() || words.value(0) != 0) return "work overtook the work before it on its stream";
  gate.open();
  one.synchronize();
  return expect(words.value(0), 7);
}

std::string outlives_its_event(const cuda::Device& device) {
  const Words words(device);
  const cuda::Stream one(device);
  cuda::Stream other(device);
  Gate gate(device, one.get());
  words.set(one.get(), 0, 7);
  {
    cuda::Event event(device);
    event.record(one.get());
    other.wait(event);
    const cuda::Stream third(device);
    event.record(third.get());  // the wait is for what was recorded before
    event.synchronize();
  }
  words.copy(other.get(), 1, 0);
  if (other.idle()) return "the wait ended with the event";
  gate.open();
  other.synchronize();
  return expect(words.value(1), 7);
}

std::string outlives_its_handle(const cuda::Device& device) {
  const Words words(device);
  {
    const cuda::Stream stream(device);
    Gate gate(device, stream.get());
    words.set(stream.get(), 0, 9);
    gate.open();
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (words.value(0) != 9 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return expect(words.value(0), 9);
}

std::string replays_a_graph(const cuda::Device& device) {
  const Words words(device);
  const cuda::Driver& driver = device.driver();
  const cuda::Stream stream(device);
  const cuda::CurrentContext current(device);
  device.require(
      driver.graph.begin_capture(stream.get(), cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "cuStreamBeginCapture");
  words.copy(stream.get(), 2, 1);
  words.copy(stream.get(), 1, 0);
  cuda::CUgraph graph = nullptr;
  device.require(driver.graph.end_capture(stream.get(), &graph), "cuStreamEndCapture");
  stream.synchronize();
  const bool ran = words.value(2) != 0;
  cuda::CUgraphExec replay = nullptr;
  device.require(driver.graph.instantiate(&replay, graph, 0), "cuGraphInstantiateWithFlags");
  driver.graph.destroy(graph);  // the executable one needs it no more
  words.set(stream.get(), 0, 3);
  for (int turn = 0; turn < 2; ++turn)
    device.require(driver.graph.launch(replay, stream.get()), "cuGraphLaunch");
  stream.synchronize();
  driver.graph.destroy_executable(replay);
  return ran ? "a captured copy ran" : expect(words.value(2), 3);
}

std::string times_events(const cuda::Device& device) {
  const cuda::Stream stream(device);
  cuda::Event start(device, cuda::Event::Timing::on), end(device, cuda::Event::Timing::on);
  start.record(stream.get());
  start.synchronize();
  Gate gate(device, stream.get());
  end.record(stream.get());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  gate.open();
  end.synchronize();
  const float took = end.milliseconds_since(start);
  return took > 3 && took < 2000 ? "" : "5 ms between two events took " + std::to_string(took);
}

}  // namespace

void stream_rules(const cuda::Device& device, Findings& findings) {
  findings.check("streams keep their order, and no other", [&] { return keeps_order(device); });
  findings.check("a wait outlives its event", [&] { return outlives_its_event(device); });
  findings.check("work outlives its stream's handle", [&] { return outlives_its_handle(device); });
  findings.check("a graph is captured and replayed", [&] { return replays_a_graph(device); });
  findings.check("events measure time", [&] { return times_events(device); });
}

}  // namespace ringwood::gpu_check
