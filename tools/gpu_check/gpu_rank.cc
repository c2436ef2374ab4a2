#include "tools/gpu_check/gpu_rank.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "collectives/device/bind_words.h"
#include "collectives/device/group/kernel_images.h"
#include "collectives/device/group/kernels.h"
#include "collectives/kernels/types.h"
#include "transports/cuda/check.h"

namespace ringwood::gpu_check {
namespace {

constexpr size_t kUnit = 256;
size_t rounded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

OperationPtr start_on_cpu(Communicator& group, const Case& of, std::byte* in, std::byte* out) {
  CallOptions options;
  options.algorithm = of.row;
  options.segments = of.segments;  // the order of additions is that of the chunks
  options.factor = 0.5 + group.rank();
  const size_t block = of.count * size_of(of.type);
  const bool is_root = group.rank() == of.root;
  switch (of.collective) {
    case Collective::all_reduce: return group.all_reduce(in, of.count, of.type, of.op, options);
    case Collective::reduce: return group.reduce(in, of.count, of.type, of.op, of.root, options);
    case Collective::broadcast: return group.broadcast(in, of.count, of.type, of.root, options);
    case Collective::all_gather: return group.all_gather(in, out, of.count, of.type, options);
    case Collective::reduce_scatter:
      return group.reduce_scatter(in, out, of.count, of.type, of.op, options);
    case Collective::gather: {
      std::vector<Block> blocks;
      for (int r = 0; is_root && r < group.size(); ++r)
        blocks.push_back({out + static_cast<size_t>(r) * block, of.count});
      return group.gather({in, of.count}, blocks, of.type, of.root, options);
    }
    case Collective::scatter: {
      std::vector<ConstBlock> blocks;
      for (int r = 0; is_root && r < group.size(); ++r)
        blocks.push_back({in + static_cast<size_t>(r) * block, of.count});
      return group.scatter(blocks, {out, of.count}, of.type, of.root, options);
    }
    default: return group.all_to_all(in, out, of.count, of.type, options);
  }
}

std::string difference(const Bytes& got, const Bytes& expected, size_t element) {
  if (got == expected) return "";
  const auto at = static_cast<size_t>(std::ranges::mismatch(got, expected).in1 - got.begin());
  const size_t first = at / element * element;
  const auto hex = [&](const Bytes& bytes) {
    std::string text;
    for (size_t i = first + element; i-- > first;)
      text += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
    return text;
  };
  return fmt::format("element {} is {} and should be {}", first / element, hex(got), hex(expected));
}

// A float's bits, or those of a complex number's part.
uint64_t special(const TypeTraits& fields, uint64_t random) {
  const uint64_t ones = (uint64_t{1} << fields.exponent_bits) - 1;
  const uint64_t most = (uint64_t{1} << fields.mantissa_bits) - 1;
  const uint64_t sign = (random & 1) << (fields.exponent_bits + fields.mantissa_bits);
  const uint64_t exponents[] = {0, 0, 1, ones - 1, ones, ones, ones, ones / 2};
  const uint64_t mantissas[] = {0, 1, most, most / 2 + 1};
  return sign | exponents[random >> 1 & 7] << fields.mantissa_bits | mantissas[random >> 4 & 3];
}

}  // namespace

GpuRank::GpuRank(Communicator& of, const cuda::Driver& driver, int ordinal,
                 device::DeviceOptions options, size_t wanted)
    : group(of),
      device(driver, ordinal),
      stream(device),
      calls([&] {
        // Window, staging and the island's own come on top.
        options.arena_bytes = 2 * rounded(wanted) + 3 * options.staging_bytes + (size_t{2} << 20) +
                              size_t{4} * static_cast<size_t>(options.segments) *
                                  (options.packet_bytes + (size_t{64} << 10));
        return device::DeviceGroup::create(group, device, options);
      }()),
      room_(rounded(wanted)),
      user_(device, 2 * room_),
      mapped_(calls->allocate(2 * room_)) {
  if (mapped_ == 0) throw Error(ErrorCode::internal, "the arena is too small for the buffers");
  if (const Status all = group.barrier()->wait(); !all) throw Error(all.error());
}

void GpuRank::write(cuda::CUdeviceptr to, std::span<const std::byte> bytes) const {
  const cuda::CurrentContext current(device);
  device.require(
      device.driver().memory.copy_to_device(to, bytes.data(), bytes.size(), stream.get()),
      "cuMemcpyHtoDAsync");
}

Bytes GpuRank::read(cuda::CUdeviceptr from, size_t bytes) const {
  const cuda::CurrentContext current(device);
  Bytes to(bytes);
  device.require(device.driver().memory.copy_to_host(to.data(), from, bytes, stream.get()),
                 "cuMemcpyDtoHAsync");
  stream.synchronize();
  return to;
}

void GpuRank::fill(cuda::CUdeviceptr to, unsigned char value, size_t bytes) const {
  const cuda::CurrentContext current(device);
  device.require(device.driver().memory.fill(to, value, bytes, stream.get()), "cuMemsetD8Async");
}

Status GpuRank::run(const device::DeviceCall& call) const {
  Status given = calls->enqueue(call, stream.get());
  return given ? calls->wait(stream.get()) : std::move(given);
}

std::string describe(const Case& of) {
  return fmt::format(
      "{} {} of {} {}{}, {} segments, {}{}, {} B off", to_string(of.collective), of.row, of.count,
      to_string(of.type), reduces(of.collective) ? fmt::format(" {}", to_string(of.op)) : "",
      of.segments, of.packets ? "packets, " : "", of.mapped ? "mapped" : "staged", of.shift);
}

size_t input_bytes(const Case& of, const Communicator& group) {
  const GroupRank at{group.rank(), group.size(), of.root};
  return static_cast<size_t>(input_blocks(of.collective, at)) * of.count * size_of(of.type);
}

namespace {

std::string compare_calls(const GpuRank& rank, const Case& of, Bytes input) {
  Communicator& group = rank.group;
  const GroupRank at{group.rank(), group.size(), of.root};
  const bool in_place = !in_blocks(of.collective);
  Bytes output(static_cast<size_t>(output_blocks(of.collective, at)) * of.count * size_of(of.type),
               std::byte{0x5a});
  const auto kind = of.mapped ? GpuRank::Kind::mapped : GpuRank::Kind::plain;
  if (std::max(input.size(), output.size()) + of.shift > rank.room())
    return "the buffers of this check are too small for " + describe(of);
  device::DeviceCall call{of.collective};
  call.input = rank.input(kind) + of.shift;
  call.output = in_place ? call.input : rank.output(kind) + of.shift;
  call.count = of.count;
  call.type = of.type;
  call.op = of.op;
  call.root = of.root;
  call.factor = 0.5 + group.rank();
  call.algorithm = of.row;
  call.segments = of.segments;
  call.packets = of.packets ? 1 : 0;
  rank.write(call.input, input);
  if (!in_place) rank.write(call.output, output);
  if (const Status done = rank.run(call); !done)
    return describe(of) + ": " + done.error().message();
  if (const Status done = start_on_cpu(group, of, input.data(), output.data())->wait(); !done)
    return "on the CPU, " + describe(of) + ": " + done.error().message();
  const Bytes& expected = in_place ? input : output;
  const std::string wrong =
      difference(rank.read(call.output, expected.size()), expected, size_of(of.type));
  return wrong.empty() ? "" : describe(of) + ": " + wrong;
}

}  // namespace

std::string compare(const GpuRank& rank, const Case& of, Bytes input) {
  std::string wrong = compare_calls(rank, of, std::move(input));
  // The others would wait for this rank, and say no more than that.
  if (!wrong.empty()) rank.group.abort(wrong);
  return wrong;
}

uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void draw(Bytes& to, DataType type, uint64_t seed) {
  const TypeTraits& fields = traits_of(type);
  const size_t size = part_size(type);
  for (size_t i = 0; i < to.size() / size; ++i) {
    uint64_t bits = mixed(mixed(seed + 1) ^ (i + 1) * 0x9e3779b97f4a7c15u);
    if (fields.exponent_bits > 0 && bits >> 62 == 0) bits = special(fields, bits);
    if (fields.kind == NumberKind::boolean) bits &= 1;
    std::memcpy(to.data() + i * size, &bits, size);
  }
}

Options options_of_ranks() {
  Options options;
  options.transports = {"shm"};
  options.timeout = options.init_timeout = std::chrono::seconds(30);
  options.status = false;
  return options;
}

std::string on_threads(int n, const std::function<std::string(Communicator&)>& body) {
  const auto store = memory_store();
  std::mutex mutex;
  std::string first;  // in time: what the others say follows from it
  const auto tell = [&](int rank, const std::string& wrong) {
    const std::lock_guard lock(mutex);
    if (first.empty() && !wrong.empty()) first = fmt::format("rank {} of {}: {}", rank, n, wrong);
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n; ++rank)
      threads.emplace_back([&, rank] {
        try {
          const auto group = Communicator::create(store, rank, n, options_of_ranks(), "gpu-check");
          tell(rank, body(*group));
        } catch (const std::exception& error) {
          tell(rank, error.what());
        }
      });
  }
  return first;
}

int resident_blocks(const cuda::Driver& driver, int ordinal) {
  const cuda::Device device(driver, ordinal);
  const device::Kernels kernels(device, device::kernel_images());
  const cuda::CurrentContext current(device);
  int fewest = 1 << 20;
  for (const TypeTraits& type : kTypeTraits) {
    const auto fold = device::fold_of(type.type, ReduceOp::sum, 2, false).fold;
    int blocks = 0;
    device.require(
        driver.kernel.blocks_per_multiprocessor(
            &blocks, kernels.get(device::kernel_of(type.type, fold)), device::Kernels::kThreads, 0),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    fewest = std::min(fewest, blocks);
  }
  return fewest * device.facts().multiprocessors;
}

int device_count(const cuda::Driver& driver) {
  int count = 0;
  cuda::require(driver, driver.device.get_count(&count), "cuDeviceGetCount");
  return std::max(count, 1);
}

std::string does_not_fit(const cuda::Driver& driver, int ranks, int blocks) {
  const int devices = device_count(driver);
  const int on_one = (ranks + devices - 1) / devices;
  for (int ordinal = 0; ordinal < std::min(devices, ranks); ++ordinal)
    if (const int resident = resident_blocks(driver, ordinal); on_one * blocks > resident)
      return fmt::format(
          "{} ranks of {} blocks on device {}, where {} blocks run at once: the others would never "
          "begin, and those that run wait for them",
          on_one, blocks, ordinal, resident);
  return "";
}

}  // namespace ringwood::gpu_check
