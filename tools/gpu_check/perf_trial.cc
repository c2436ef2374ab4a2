#include "tools/gpu_check/perf_trial.h"

#include <algorithm>

#include "collectives/algorithms/algorithms.h"
#include "collectives/kernels/types.h"

namespace ringwood::gpu_check {
namespace {

constexpr size_t kPackets = 32 << 10;  // bytes of a buffer up to which packets may pay
constexpr size_t kSegment = 64 << 10;  // bytes from which on a block more may
constexpr int kInGraph = 20;           // calls
// Of a float of four equal bytes, sums of up to 32 are exact.
constexpr unsigned char kSummed = 0x40;

float of_bytes(unsigned char byte) {
  const unsigned char bytes[4] = {byte, byte, byte, byte};
  float value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
unsigned char moved(int rank) { return static_cast<unsigned char>(0x41 + rank); }

}  // namespace

std::vector<Way> ways(Collective collective, size_t bytes, int n) {
  std::vector<Way> all;
  const auto add = [&](const Way& way) {
    const AlgorithmRow* const row = find_algorithm(collective, way.row);
    if (row && row->accepts(n)) all.push_back(way);
  };
  for (const AlgorithmRow& row : algorithm_table()) {
    const std::string_view name = row.name;
    if (row.collective != collective) continue;
    const bool is_flat = name == "direct" || name == "linear" || name == "pairwise";
    if (bytes <= kPackets && (is_flat || name == "one_shot")) add({row.name, 1, true});
    if (!is_flat) continue;
    if (bytes >= kSegment)
      for (const int segments : {8, kBlocksOfPerf}) add({row.name, segments, false});
    else
      add({row.name, 1, false});
  }
  return all;
}

Status Trial::together() const { return rank_.group.barrier()->wait(); }

double Trial::slowest(double own) const {
  double all = own;
  const Status done = rank_.group.all_reduce(&all, 1, DataType::float64, ReduceOp::max)->wait();
  if (!done) throw Error(done.error());
  return all;
}

std::string Trial::time_calls(const device::DeviceCall& call, int turns, double& seconds) const {
  cuda::Event start(rank_.device, cuda::Event::Timing::on);
  cuda::Event end(rank_.device, cuda::Event::Timing::on);
  for (int turn = -2; turn < turns; ++turn) {
    if (turn == 0) {
      if (const Status all = together(); !all) return all.error().message();
      start.record(rank_.stream.get());
    }
    if (const Status given = rank_.calls->enqueue(call, rank_.stream.get()); !given)
      return given.error().message();
  }
  end.record(rank_.stream.get());
  if (const Status done = rank_.calls->wait(rank_.stream.get()); !done)
    return done.error().message();
  end.synchronize();
  seconds = slowest(end.milliseconds_since(start) * 1e-3 / turns);
  return "";
}

std::string Trial::time_graph(const device::DeviceCall& call, double& seconds) const {
  const cuda::Driver& driver = rank_.device.driver();
  const cuda::CurrentContext current(rank_.device);
  const cuda::CUstream stream = rank_.stream.get();
  rank_.device.require(
      driver.graph.begin_capture(stream, cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "cuStreamBeginCapture");
  Status given;
  for (int i = 0; i < kInGraph && given; ++i) given = rank_.calls->enqueue(call, stream);
  cuda::CUgraph graph = nullptr;
  cuda::CUgraphExec replay = nullptr;
  rank_.device.require(driver.graph.end_capture(stream, &graph), "cuStreamEndCapture");
  if (!given) return given.error().message();
  rank_.device.require(driver.graph.instantiate(&replay, graph, 0), "cuGraphInstantiateWithFlags");
  driver.graph.destroy(graph);
  cuda::Event start(rank_.device, cuda::Event::Timing::on);
  cuda::Event end(rank_.device, cuda::Event::Timing::on);
  const int turns = std::max(1, repetitions_ / kInGraph);
  for (int turn = -1; turn < turns; ++turn) {
    if (turn == 0) start.record(stream);
    rank_.device.require(driver.graph.launch(replay, stream), "cuGraphLaunch");
  }
  end.record(stream);
  const Status done = rank_.calls->wait(stream);
  if (done) seconds = slowest(end.milliseconds_since(start) * 1e-3 / (turns * kInGraph));
  driver.graph.destroy_executable(replay);
  return done ? "" : done.error().message();
}

size_t Trial::wrong_elements(const device::DeviceCall& call, size_t bytes) const {
  const int n = rank_.group.size();
  const size_t block = call.count * sizeof(float);
  const Bytes found = rank_.read(
      call.output, call.collective == Collective::reduce_scatter ? block : std::max(bytes, block));
  size_t wrong = 0;
  for (size_t i = 0; i < found.size() / sizeof(float); ++i) {
    float value = 0;
    std::memcpy(&value, found.data() + i * sizeof value, sizeof value);
    const float expected = reduces(call.collective) ? of_bytes(kSummed) * static_cast<float>(n)
                           : has_root(call.collective)
                               ? of_bytes(moved(call.root))
                               : of_bytes(moved(static_cast<int>(i * sizeof(float) / block)));
    wrong += value != expected;
  }
  return wrong;
}

Measured Trial::measure(Collective collective, size_t bytes, const Way& way,
                        GpuRank::Kind kind) const {
  Measured found;
  const bool blocks = in_blocks(collective);
  device::DeviceCall call{collective};
  call.output = rank_.output(kind);
  call.input = blocks ? rank_.input(kind) : call.output;
  call.count = bytes / sizeof(float) / (blocks ? static_cast<size_t>(rank_.group.size()) : 1);
  call.algorithm = way.row;
  call.segments = way.segments;
  call.packets = way.packets ? 1 : 0;
  const unsigned char byte = reduces(collective) ? kSummed : moved(rank_.group.rank());
  rank_.fill(call.input, byte, bytes);
  if (blocks) rank_.fill(call.output, 0, bytes);
  if (const Status done = rank_.run(call); !done) {
    found.error = done.error().message();
    return found;
  }
  found.wrong = static_cast<size_t>(slowest(static_cast<double>(wrong_elements(call, bytes))));
  const int turns = bytes >= size_t{16} << 20  ? std::max(2, repetitions_ / 10)
                    : bytes >= size_t{1} << 20 ? std::max(2, repetitions_ / 2)
                                               : repetitions_;
  found.error = time_calls(call, turns, found.seconds);
  if (found.error.empty() && bytes <= kPackets) found.error = time_graph(call, found.graph_seconds);
  return found;
}

}  // namespace ringwood::gpu_check
