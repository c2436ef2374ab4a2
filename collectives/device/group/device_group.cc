#include "collectives/device/group/device_group.h"

#include <cstring>
#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "collectives/device/group/island.h"
#include "collectives/device/group/kernel_images.h"
#include "collectives/device/group/kernels.h"
#include "collectives/device/group/launch_order.h"
#include "collectives/device/group/pointers.h"
#include "collectives/device/group/predicted_choice.h"
#include "collectives/device/group/programs.h"
#include "collectives/device/group/stopped.h"
#include "transports/base/hash.h"
#include "transports/base/result.h"
#include "transports/cuda/check.h"

namespace ringwood::device {
namespace {

constexpr size_t kUnit = 256;
constexpr size_t kRemembered = 1024;  // calls, for the words of errors
constexpr auto kSetUp = std::chrono::minutes(1);
size_t rounded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

// What rows need that hold a call's data once more, each part on a cache line of its own.
size_t scratch_room(const DeviceOptions& options) {
  return options.staging_bytes + (size_t{64} << 10);
}

size_t probe_room(int n) { return kUnit * static_cast<size_t>(n); }

// Where the parts of an arena begin.
struct ArenaLayout {
  ArenaLayout(const DeviceOptions& options, int n)
      : window{static_cast<uint32_t>(n), static_cast<uint32_t>(options.segments),
               options.packet_bytes},
        input(rounded(window.bytes())),
        output(input + rounded(options.staging_bytes)),
        scratch(output + rounded(options.staging_bytes)),
        user(scratch + rounded(scratch_room(options))),
        // Behind it is room for the island's probe.
        bytes(std::max(user + probe_room(n), options.arena_bytes)),
        end(bytes - probe_room(n)) {}
  WindowLayout window;
  size_t input, output, scratch, user, bytes, end;
};

std::string describe(const DeviceCall& call) {
  return fmt::format("{} of {} {}", to_string(call.collective), call.count, to_string(call.type));
}

// Of what all ranks have to agree on.
uint32_t digest_of(const ProgramShape& shape) {
  const CollectiveArgs& args = shape.args;
  const uint64_t parts[] = {
      static_cast<uint64_t>(args.collective),
      static_cast<uint64_t>(args.type),
      reduces(args.collective) ? static_cast<uint64_t>(args.op) : 0,
      static_cast<uint64_t>(args.root),
      args.count,
      shape.row ? static_cast<uint64_t>(shape.row - algorithm_table().data()) : UINT64_MAX,
      shape.packets,
      static_cast<uint64_t>(shape.segments)};
  const uint64_t hash = fnv1a_64({reinterpret_cast<const char*>(std::data(parts)), sizeof parts});
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

class DeviceGroupOf final : public DeviceGroup {
 public:
  DeviceGroupOf(Communicator& group, const cuda::Device& device, const DeviceOptions& options)
      : group_(group),
        device_(device),
        options_(options),
        layout_(options, group.size()),
        gather_(gather_by(group)),
        kernels_(made_by_all(gather_,
                             [&] {
                               return std::make_unique<Kernels>(device, options.images.empty()
                                                                            ? kernel_images()
                                                                            : options.images);
                             })),
        island_(device, layout_.bytes, layout_.input, group.rank(), group.size(), gather_,
                Deadline::after(kSetUp)),
        choice_(group.size(), model_of(oldest_sm(), options)),
        programs_(device, group.rank(), group.size()),
        order_(device),
        stopped_(device, group, options.segments, [this](const Report& r) { return words(r); }),
        next_user_(layout_.user) {
    std::vector<MappedMemory> mapped(static_cast<size_t>(group.size()) * kMappedPerRank);
    for (int rank = 0; rank < group.size(); ++rank)
      mapped[static_cast<size_t>(rank) * kMappedPerRank] = {on_device<char>(island_.arena(rank)),
                                                            island_.bytes()};
    mapped_ = programs_.upload(mapped.data(), mapped.size() * sizeof mapped[0]);
  }

  ~DeviceGroupOf() override {
    try {
      // The abort of a group that has ended reaches its kernels by the thread of `stopped_`.
      if (order_.wait_until_idle(Deadline::after(kSetUp)) && group_.health())
        island_.close(gather_);
    } catch (...) {
      stopped_.end_kernels();  // the mappings are left
    }
  }

  Status enqueue(const DeviceCall& call, cuda::CUstream stream) override {
    const std::lock_guard lock(mutex_);
    try {
      if (Status ended = stopped_.status(); !ended) return ended;
      DeviceCall chosen = call;
      if (call.count > 0 && moves_data(call.collective)) choice_.fill(chosen);
      return carry_out(chosen, stream);
    } catch (...) {
      Error error = caught_error();
      error.rank = group_.rank();
      error.collective = to_string(call.collective);
      return error;
    }
  }

  Status status() override { return stopped_.status(); }

  Status wait(cuda::CUstream stream) override {
    for (auto pause = std::chrono::microseconds(20);; pause = std::min(pause * 2, kLongest)) {
      const cuda::CurrentContext current(device_);
      const cuda::CUresult code = device_.driver().stream.query(stream);
      if (code == cuda::CUDA_SUCCESS) return stopped_.status();
      if (code != cuda::CUDA_ERROR_NOT_READY)
        return cuda::failure(device_.driver(), code, "cuStreamQuery", device_.ordinal());
      std::this_thread::sleep_for(pause);
    }
  }

  cuda::CUdeviceptr allocate(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes > layout_.end - std::min(layout_.end, next_user_)) return 0;
    const cuda::CUdeviceptr at = island_.arena(island_.rank()) + next_user_;
    next_user_ += rounded(bytes);
    return at;
  }

 private:
  static constexpr std::chrono::microseconds kLongest{500};

  int oldest_sm() const {
    const int own = device_.facts().sm;
    const std::vector<std::byte> all = gather_(std::as_bytes(std::span(&own, 1)));
    int oldest = own;
    for (size_t at = 0; at < all.size(); at += sizeof own) {
      int of_rank = 0;
      std::memcpy(&of_rank, all.data() + at, sizeof of_rank);
      oldest = std::min(oldest, of_rank);
    }
    return oldest;
  }

  bool is_mapped(cuda::CUdeviceptr data, size_t bytes) const {
    const cuda::CUdeviceptr base = island_.arena(island_.rank());
    return bytes == 0 ||
           (data >= base && data - base <= layout_.end && bytes <= layout_.end - (data - base));
  }
  bool is_mapped(const DeviceCall& call) const {
    const GroupRank at{group_.rank(), group_.size(), call.root};
    const size_t block = call.count * size_of(call.type);
    const auto input = static_cast<size_t>(input_blocks(call.collective, at)) * block;
    const auto output = static_cast<size_t>(output_blocks(call.collective, at)) * block;
    return is_mapped(in_blocks(call.collective) ? call.input : call.output, input) &&
           is_mapped(call.output, output);
  }

  ProgramShape shape_of(const DeviceCall& call) const {
    ProgramShape shape;
    shape.args.collective = call.collective;
    shape.args.type = call.type;
    shape.args.op = call.op;
    shape.args.root = call.root;
    shape.args.count = call.count;
    shape.row = find_algorithm(call.collective, call.algorithm);
    if (!shape.row || !shape.row->accepts(Where{0, group_.size(), call.root, {}, {}}))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("there is no algorithm {} for {} on {} GPUs of one host",
                              call.algorithm, to_string(call.collective), group_.size()));
    shape.packets = call.packets == 1;
    shape.segments = std::clamp(call.segments, 1, options_.segments);
    return shape;
  }

  Status carry_out(const DeviceCall& call, cuda::CUstream stream) {
    if (!supports(call.collective, call.type, call.op))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("there is no {} of {}", to_string(call.op), to_string(call.type)));
    if (group_.size() == 1 && reduces(call.collective) && call.op == ReduceOp::premul_sum)
      throw Error(ErrorCode::unsupported,
                  "premul_sum on the GPU of a single rank: multiply the tensor instead");
    if (!moves_data(call.collective)) {
      ProgramShape hellos;  // all that a barrier is
      return launch(call, hellos, uploaded(hellos, stream), 0, 0, stream);
    }
    if (call.count == 0) return {};
    ProgramShape shape = shape_of(call);
    return in_pieces(call, shape, stream);
  }

  // How a call is cut must be the same on all ranks, so it depends on sizes only: in pieces that
  // fit the staging, of all blocks. Whether a rank's buffers are mapped is its own business, but
  // for pieces of blocks, which lie apart in the user's memory and side by side in the staging.
  Status in_pieces(const DeviceCall& call, ProgramShape shape, cuda::CUstream stream) {
    const size_t element = size_of(call.type);
    const bool blocks = in_blocks(call.collective);
    const size_t most =
        options_.staging_bytes / element / static_cast<size_t>(blocks ? group_.size() : 1);
    const size_t pieces = (call.count + most - 1) / most;
    const cuda::CUdeviceptr from = blocks ? call.input : call.output;
    shape.buffers.staged = !is_mapped(call) || (blocks && pieces > 1);
    if (shape.buffers.staged)
      shape.buffers.user_block = pieces > 1 ? call.count : 0;
    else
      shape.buffers.in_place =
          traits_of(call.collective).chunks == Chunks::outputs &&
          call.input == call.output + static_cast<size_t>(group_.rank()) * call.count * element;
    for (size_t piece = 0; piece < pieces; ++piece) {
      const size_t first = piece * most;
      shape.args.count = std::min(most, call.count - first);
      Status launched = launch(call, shape, uploaded(shape, stream), from + first * element,
                               call.output + first * element, stream);
      if (!launched) return launched;
    }
    return {};
  }

  const UploadedProgram& uploaded(const ProgramShape& shape, cuda::CUstream stream) {
    const UploadedProgram* const known = programs_.find(shape);
    if (!known && order_.is_capturing(stream))
      throw Error(ErrorCode::invalid_argument,
                  "the first call of its shape and size cannot be captured, since its program has "
                  "to be uploaded: make it once before the capture (a warm-up)");
    const UploadedProgram& made =
        known
            ? *known
            : programs_.add(shape, [this](const std::string& name) { return kernels_->get(name); });
    if (made.bound.scratch_bytes > scratch_room(options_))
      throw Error(ErrorCode::unsupported,
                  fmt::format("the row {} needs {} B of scratch and has {}: give the group more "
                              "staging",
                              shape.row->name, made.bound.scratch_bytes, scratch_room(options_)));
    if (made.bound.packet_bytes > options_.packet_bytes)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("packets of {} B in a segment, and there is room for {}",
                              made.bound.packet_bytes, options_.packet_bytes));
    return made;
  }

  PlaceWord place_of(cuda::CUdeviceptr data) const { return data - island_.arena(island_.rank()); }

  Status launch(const DeviceCall& call, const ProgramShape& shape, const UploadedProgram& program,
                cuda::CUdeviceptr from, cuda::CUdeviceptr to, cuda::CUstream stream) {
    Launch a;
    a.rank = group_.rank();
    a.n = group_.size();
    a.digest = digest_of(shape);
    a.window = layout_.window;
    std::copy(program.bound.first.begin(), program.bound.first.end(), a.first);
    a.words = on_device<const Word>(program.words);
    a.operands = on_device<const Operand>(program.operands);
    a.reach = on_device<const uint64_t>(program.reach);
    a.mapped = on_device<const MappedMemory>(mapped_);
    const bool staged = shape.buffers.staged;
    a.place[0] = staged ? layout_.input : program.bound.input_bytes ? place_of(from) : 0;
    a.place[1] = staged ? layout_.output : program.bound.output_bytes ? place_of(to) : 0;
    a.place[2] = layout_.scratch;
    a.user_input = on_device<char>(from);
    a.user_output = on_device<char>(to);
    a.scale = program.fold.scale;
    a.factor = call.factor;
    a.tells_factor = program.fold.tells_factor;
    a.divisor = program.fold.divisor;
    a.abort = stopped_.abort_word();
    a.report = stopped_.reports();
    const auto limit = options_.limit.count() > 0 ? options_.limit : std::chrono::minutes(5);
    a.limit_ns = static_cast<uint64_t>(std::chrono::nanoseconds(limit).count());
    for (int rank = 0; rank < group_.size(); ++rank)
      a.arena[rank] = on_device<char>(island_.arena(rank));
    remember(call);
    return order_.launch(program.kernel, shape.segments, Kernels::kThreads, &a, stream);
  }

  void remember(const DeviceCall& call) {
    const std::lock_guard lock(calls_mutex_);
    calls_.push_back(call);
    if (calls_.size() > kRemembered) calls_.pop_front();
    ++launched_;
  }

  // In words. Graphs that were replayed have counted on the device only: then the call is not
  // known.
  Error words(const Report& report) {
    const std::lock_guard lock(calls_mutex_);
    const uint64_t back = launched_ - report.sequence;
    const bool known = report.sequence <= launched_ && back < calls_.size();
    const std::string call =
        known ? describe(calls_[calls_.size() - 1 - back]) : std::string("an operation");
    const auto peer = static_cast<int>(report.peer);
    Error error;
    error.rank = group_.rank();
    error.peer = peer == group_.rank() ? -1 : peer;
    error.sequence = static_cast<int64_t>(report.sequence);
    error.step = static_cast<int>(report.number);
    error.transport = "cuda";
    if (known) error.collective = to_string(calls_[calls_.size() - 1 - back].collective);
    const auto set = [&](ErrorCode code, std::string cause) {
      error.code = code;
      error.cause = std::move(cause);
    };
    const std::string where =
        fmt::format("GPU {}, block {}", device_.facts().uuid.text(), report.segment);
    switch (static_cast<Code>(report.code)) {
      case Code::mismatch:
        set(ErrorCode::mismatch,
            fmt::format("rank {} calls {} ({}), and rank {} something else at the same time; no "
                        "buffer was written",
                        group_.rank(), call, where, peer));
        break;
      case Code::timeout:
        set(ErrorCode::timeout,
            fmt::format("{}: rank {} ({}) waits for rank {} for longer than it may: that rank has "
                        "not called it, or its GPU has not come to it",
                        call, group_.rank(), where, peer));
        break;
      case Code::bad_place:
        set(ErrorCode::mismatch, fmt::format("{}: rank {} tells a place ({:#x}) outside of its "
                                             "memory ({})",
                                             call, peer, report.seen, where));
        break;
      case Code::busy:
        set(ErrorCode::invalid_argument,
            fmt::format("{}: another kernel of this group runs at the same time ({}): graphs of "
                        "one group must not be replayed side by side",
                        call, where));
        break;
      default: set(ErrorCode::aborted, call + " was stopped, since the group has ended");
    }
    return error;
  }

  Communicator& group_;
  const cuda::Device& device_;
  const DeviceOptions options_;
  const ArenaLayout layout_;
  const GatherBytes gather_;
  const std::unique_ptr<const Kernels> kernels_;
  Island island_;
  std::mutex mutex_;  // of calls
  PredictedChoice choice_;
  Programs programs_;
  LaunchOrder order_;
  std::mutex calls_mutex_;  // after mutex_
  std::deque<DeviceCall> calls_;
  uint64_t launched_ = 0;
  Stopped stopped_;  // its thread uses what is above
  size_t next_user_;
  cuda::CUdeviceptr mapped_ = 0;
};

}  // namespace

std::unique_ptr<DeviceGroup> DeviceGroup::create(Communicator& group, const cuda::Device& device,
                                                 const DeviceOptions& options) {
  return std::make_unique<DeviceGroupOf>(group, device, options);
}

}  // namespace ringwood::device
