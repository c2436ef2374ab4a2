#include "collectives/communicator.h"

#include <unistd.h>

#include <array>
#include <atomic>

#include <fmt/format.h>

#include "collectives/calls/arguments.h"
#include "collectives/calls/call_group.h"
#include "collectives/calls/recent_calls.h"
#include "collectives/executors/eager_slots.h"
#include "collectives/kernels/accumulate.h"
#include "collectives/planner/group_planner.h"
#include "collectives/runtime/group_parts.h"
#include "collectives/runtime/progress_engine.h"
#include "collectives/tuner/tuner.h"
#include "transports/base/fork_guard.h"
#include "transports/cache_line.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood {
namespace {

// Turns the calls of the interface into arguments, a plan and a table of buffers.
class alignas(kCacheLine) LiveCommunicator final : public Communicator, public GroupParts {
 public:
  LiveCommunicator(std::shared_ptr<ProgressEngine> engine, const Options& options,
                   std::shared_ptr<const Tuner> tuner)
      : engine_(std::move(engine)),
        limits_(tuner->group().limits),
        plans_(
            std::make_shared<GroupPlanner>(rank(), size(), std::move(tuner), slots_to_all(mesh()))),
        publishes_(engine_->reads_in_place() && size() > 2),
        timeout_(options.timeout) {
    engine_->use(plans_);
  }
  ~LiveCommunicator() override {
    if (mesh().process != getpid()) {
      // A forked child has none of its parent's threads: nothing can be ended, only leaked.
      new std::shared_ptr<ProgressEngine>(engine_);
      return;
    }
    (void)engine_->shutdown(std::chrono::milliseconds(0));
  }
  const Mesh& mesh() const override { return engine_->mesh(); }
  const GroupPlanner& plans() const override { return *plans_; }
  int rank() const noexcept override { return mesh().rank; }
  int size() const noexcept override { return mesh().size; }

  OperationPtr all_reduce(void* data, size_t count, DataType type, ReduceOp op,
                          const CallOptions& call) override {
    if (auto done = again({Collective::all_reduce, type, op, 0, count, nullptr, data}, call))
      return done;
    const CollectiveArgs args = in_place(Collective::all_reduce, data, count, type, op, 0, size());
    if (packs(args, call)) return group_.add(args, {data, {}}, call);
    auto state = begin(args, std::vector<void*>{data}, call);
    if (premultiplies(*state, args, call))
      premultiply_in_place(state->draft(), count, type, call.factor);
    return go(state, call);
  }

  OperationPtr reduce(void* data, size_t count, DataType type, ReduceOp op, int root,
                      const CallOptions& call) override {
    if (auto done = again({Collective::reduce, type, op, root, count, nullptr, data}, call))
      return done;
    const CollectiveArgs args = in_place(Collective::reduce, data, count, type, op, root, size());
    if (packs(args, call)) return group_.add(args, {data, {}}, call);
    auto state = begin(args, std::vector<void*>{data}, call);
    const bool multiplies = premultiplies(*state, args, call);
    if (multiplies && root == rank())
      premultiply_in_place(state->draft(), count, type, call.factor);
    else if (multiplies)
      premultiply(state->draft(), {&count, 1}, type, call.factor);
    return go(state, call);
  }

  OperationPtr broadcast(void* data, size_t count, DataType type, int root,
                         const CallOptions& call) override {
    constexpr auto kOp = ReduceOp::sum;
    if (auto done = again({Collective::broadcast, type, kOp, root, count, nullptr, data}, call))
      return done;
    const auto args = in_place(Collective::broadcast, data, count, type, kOp, root, size());
    if (packs(args, call)) return group_.add(args, {data, {}}, call);
    return go(begin(args, std::vector<void*>{data}, call), call);
  }

  OperationPtr all_gather(const void* in, void* out, size_t count, DataType type,
                          const CallOptions& call) override {
    if (auto done = again({Collective::all_gather, type, ReduceOp::sum, 0, count, in, out}, call))
      return done;
    return all_gather({in, count}, equal_blocks<Block>("all_gather", out, count, type, size()),
                      type, call);
  }

  OperationPtr all_gather(ConstBlock in, std::vector<Block> out, DataType type,
                          const CallOptions& call) override {
    const CollectiveArgs args = gathered(in, out, type, rank(), size());
    CallBuffers buffers{const_cast<void*>(in.data), buffers_of(out)};
    if (packs(args, call)) return group_.add(args, std::move(buffers), call);
    return go(begin(args, std::move(buffers), call), call);
  }

  OperationPtr reduce_scatter(const void* in, void* out, size_t count, DataType type, ReduceOp op,
                              const CallOptions& call) override {
    if (auto done = again({Collective::reduce_scatter, type, op, 0, count, in, out}, call))
      return done;
    return reduce_scatter(equal_blocks<ConstBlock>("reduce_scatter", in, count, type, size()),
                          {out, count}, type, op, call);
  }

  OperationPtr reduce_scatter(std::vector<ConstBlock> in, Block out, DataType type, ReduceOp op,
                              const CallOptions& call) override {
    const CollectiveArgs args = scattered(in, out, type, op, rank(), size());
    CallBuffers buffers{out.data, buffers_of(in)};
    if (packs(args, call)) return group_.add(args, std::move(buffers), call);
    auto state = begin(args, std::move(buffers), call);
    if (premultiplies(*state, args, call))
      premultiply(state->draft(), counts_of(in), type, call.factor);
    return go(state, call);
  }

  OperationPtr all_to_all(const void* in, void* out, size_t count, DataType type,
                          const CallOptions& call) override {
    if (auto done = again({Collective::all_to_all, type, ReduceOp::sum, 0, count, in, out}, call))
      return done;
    const auto inputs = equal_blocks<ConstBlock>("all_to_all", in, count, type, size());
    const auto outputs = equal_blocks<Block>("all_to_all", out, count, type, size());
    check_apart("all_to_all", {inputs, outputs, inputs.size(), 0}, type);
    std::vector<void*> buffers = buffers_of(inputs);
    for (const Block& b : outputs) buffers.push_back(b.data);
    return go(begin(make_args(Collective::all_to_all, type, count), std::move(buffers), call),
              call);
  }

  OperationPtr all_to_all(std::vector<ConstBlock> in, std::vector<Block> out, DataType type,
                          const CallOptions& call) override {
    std::vector<void*> buffers = buffers_of(in);
    for (const Block& b : out) buffers.push_back(b.data);
    return go(begin(exchanged(in, out, type, rank(), size()), std::move(buffers), call), call);
  }

  OperationPtr gather(ConstBlock in, std::vector<Block> out, DataType type, int root,
                      const CallOptions& call) override {
    const auto args = gathered_at(root, in, out, type, rank(), size(), call.uneven);
    std::vector<void*> buffers(size(), nullptr);
    buffers[rank()] = const_cast<void*>(in.data);
    if (root == rank()) buffers = buffers_of(out);
    auto state = begin(args, std::move(buffers), call);
    if (root == rank() && out[root].data != in.data)
      copy_own(state->draft(), out[root].data, in.data, in.count * size_of(type));
    return go(state, call);
  }

  OperationPtr scatter(std::vector<ConstBlock> in, Block out, DataType type, int root,
                       const CallOptions& call) override {
    const auto args = scattered_from(root, in, out, type, rank(), size(), call.uneven);
    std::vector<void*> buffers(size(), nullptr);
    if (root == rank()) buffers = buffers_of(in);
    buffers.push_back(out.data);
    return go(begin(args, std::move(buffers), call), call);
  }

  OperationPtr barrier(const CallOptions& call) override {
    if (auto done = again({}, call)) return done;
    const CollectiveArgs args = make_args(Collective::barrier, DataType::uint8, 0);
    return go(begin(args, std::vector<void*>(), call), call);
  }
  OperationPtr send(const void* data, size_t count, DataType type, int peer, uint64_t tag,
                    const CallOptions& call) override {
    return message("send", true, const_cast<void*>(data), count, type, peer, tag, call);
  }
  OperationPtr recv(void* data, size_t count, DataType type, int peer, uint64_t tag,
                    const CallOptions& call) override {
    return message("recv", false, data, count, type, peer, tag, call);
  }
  void group_start() override { group_.start(); }
  void group_end() override {
    engine_->launch_together(
        [this] { group_.end(std::bind_front(&LiveCommunicator::launch_pack, this)); });
  }
  void abort(const std::string& reason) override { engine_->abort(reason); }
  void set_interrupt_check(InterruptCheck c) override { engine_->interrupted = std::move(c); }
  Status shutdown(std::chrono::milliseconds timeout) override { return engine_->shutdown(timeout); }
  Status health() const override { return engine_->health(); }
  void set_timeout(std::chrono::milliseconds timeout) override { timeout_.store(timeout); }

  Choice choice(Collective collective, size_t bytes, DataType type, ReduceOp op) const override {
    check_not_forked();
    const auto a = plans_->choose(make_args(collective, type, bytes / size_of(type), op));
    return {a.own ? a.own_name : a.algorithm, a.segments, to_string(a.wire),
            mesh().transports_in_use(),       why(a),     a.by == ChosenBy::tuning_file};
  }
  std::vector<Candidate> explain(Collective c, size_t b, DataType t, ReduceOp op) const override {
    check_not_forked();
    return plans_->explain(make_args(c, t, b / size_of(t), op));
  }
  std::string transport_to(int peer) const override {
    if (peer < 0 || peer >= size())
      refuse(fmt::format("no rank {} in a group of {}", peer, size()));
    return mesh().peers[peer].transport;
  }

 private:
  Duration time_for(const CallOptions& call) const {
    return saturated(call.timeout.count() > 0 ? call.timeout : timeout_.load());
  }
  RecentCalls::Begun begin(const CollectiveArgs& args, std::vector<void*> buffers,
                           const CallOptions& call) {
    const void* source = nullptr;
    if (sends_from_input(args.collective)) source = buffers[rank()];
    if (cut_from_one_buffer(args.collective)) source = buffers.front();
    if (call.copied && call.copied->order != 0) source = call.copied->memory;
    check_memory(args, call, size());
    engine_->check_place(to_string(args.collective), call.on, buffers);
    auto state = make_state(args, source, call);
    state->draft().buffers = std::move(buffers);
    return state;
  }
  // A call like a recent one, carried out; null: it needs the full checks.
  [[gnu::flatten]] OperationPtr again(const EvenCall& even, const CallOptions& call) {
    if (!call.synchronous || call.persistent || call.copied || call.on.device >= 0 ||
        group_.open() || forked() || cuda::LoadedDriver::known())
      return nullptr;
    const bool apart = publishes_ && private_source(even.source(), even.count * size_of(even.type));
    RecentCalls::Hold hold;
    const RecentCalls::State* state = nullptr;
    const auto find = [&](const EngineLock& lock) -> CollectiveState* {
      hold = recent_.hold(lock);
      if (hold) state = recent_.again(hold, even, call, apart, time_for(call));
      return state ? state->get() : nullptr;
    };
    if (!engine_->call_alone(find)) return nullptr;
    return *state;
  }
  // For calls that can be packed.
  RecentCalls::Begun begin(const CollectiveArgs& args, CallBuffers buffers,
                           const CallOptions& call) {
    std::vector<void*>& blocks = buffers.blocks;
    if (cut_from_one_buffer(args.collective)) blocks.assign(1, buffers.data);
    if (has_input_chunks(args.collective)) blocks.push_back(buffers.data);
    if (!sends_from_input(args.collective)) return begin(args, std::move(blocks), call);
    const auto own = static_cast<size_t>(rank());
    void* const out = std::exchange(blocks[own], buffers.data);
    auto state = begin(args, std::move(blocks), call);
    if (!state->call().plan) return state;
    state->draft().buffers[own] = out;
    const size_t count = args.blocks.empty() ? args.count : args.blocks[own];
    send_from(state->draft(), own, buffers.data, count * size_of(args.type));
    return state;
  }
  // Whether data sent from there would have to be copied for each peer.
  bool private_source(const void* source, size_t bytes) const {
    if (!publishes_ || !source || !is_published(limits_, bytes)) return false;
    return !Arena::of_process()->offset_of(source, bytes) && !RemappedMemory::knows(source, bytes);
  }
  // Locks that another thread held at a fork stay locked in the child: nothing here takes one.
  bool forked() const { return forked_since(mesh().process); }
  void check_not_forked() const {
    if (forked()) throw Error(engine_->health().error());
  }
  // Without a plan in a forked child, where it cannot be begun.
  RecentCalls::Begun make_state(const CollectiveArgs& args, const void* source,
                                const CallOptions& call) {
    const char* const name = to_string(args.collective);
    const auto make = [&] {
      return std::make_shared<CollectiveState>(engine_, name, time_for(call));
    };
    if (forked()) return RecentCalls::Begun(make());
    const MemoryKind memory = memory_of(call);
    const bool apart = memory == MemoryKind::host && args.blocks.empty() &&
                       private_source(source, args.count * size_of(args.type));
    const PlanKey key{
        args, {call.algorithm, call.segments, call.tolerance, apart, call.schedules, memory}};
    const auto find = [&] { return plans_->get(key); };
    RecentCalls::Hold hold;
    if (call.synchronous && !call.persistent && memory == MemoryKind::host && !group_.open())
      hold = recent_.hold(engine_->lock());
    auto begun = hold ? recent_.take(std::move(hold), name, time_for(call), key, make, find)
                      : RecentCalls::Begun(make());
    CollectiveCall& made = begun->draft();
    if (!begun.recent()) made.plan = find();
    made.priority = call.priority;
    made.on = call.on;
    set_pair_counts(made);
    return begun;
  }
  OperationPtr go(const RecentCalls::Begun& begun, const CallOptions& call) {
    if (call.copied) use_copies(*begun, call.copied);
    if (const DeviceMove& move = begun->call().own_move; move.bytes > 0)
      engine_->check_place(begun->name, call.on, std::array{move.to, const_cast<void*>(move.from)});
    if (call.persistent) return begun->make_persistent(call.synchronous);
    const auto& state = begun.state();
    if (group_.open() && !begun.recent())
      return group_.add(state->name, call, [=, this] { return launch(state, later(call)); });
    return launch(state, call);
  }
  OperationPtr launch(const std::shared_ptr<CollectiveState>& state, const CallOptions& call) {
    if (auto first = std::exchange(state->gather, nullptr)) launch(first, call);
    if (!call.synchronous) return submit(state, call);
    if (Status s = engine_->call(state); !s)
      state->complete(std::make_shared<const Error>(std::move(s.error())));
    return state;
  }
  // The operations of a dead communicator are completed when made, with the error that ended it.
  template <class State>
  OperationPtr submit(std::shared_ptr<State> state, const CallOptions& call) {
    if (Status s = engine_->submit(state, call.synchronous); !s)
      state->complete(std::make_shared<const Error>(std::move(s.error())));
    else if (call.synchronous)
      (void)engine_->wait(*state);
    return state;
  }
  OperationPtr message(const char* what, bool sending, void* data, size_t count, DataType type,
                       int peer, uint64_t tag, const CallOptions& call) {
    check_buffer(what, data, count, type);
    if (sending || peer != kAnySource) check_peer(what, peer, rank(), size());
    auto state = std::make_shared<MessageState>(engine_, what, time_for(call));
    state->sending = sending;
    state->data = data;
    state->on = call.on;
    engine_->check_place(what, call.on, {&data, 1});
    state->bytes = count * size_of(type);
    state->peer = peer;
    state->tag = tag;
    if (call.persistent) return state->make_persistent(call.synchronous);
    if (group_.open())
      return group_.add(what, call, [=, this] { return submit(state, later(call)); });
    return submit(std::move(state), call);
  }
  // A call that names an algorithm is not packed: whether it can be used is reported at once.
  bool packs(const CollectiveArgs& args, const CallOptions& call) const {
    return group_.open() && !call.persistent && call.algorithm.empty() && !call.schedules &&
           memory_of(call) == MemoryKind::host && call.segments == 0 &&
           args.op != ReduceOp::premul_sum && args.blocks.empty() &&
           packed_bytes(args, size()) <= limits_.packed;
  }
  OperationPtr launch_pack(const CallPack& pack) {
    if (pack.parts.size() == 1) {
      const auto begun = begin(pack.args, pack.parts[0].buffers, pack.call);
      if (const auto& copied = pack.parts[0].copied) use_copies(*begun, copied);
      return launch(begun.state(), pack.call);
    }
    PackedBuffer packed = pack_calls(pack, rank(), size());
    const auto begun = begin(pack.args, packed.buffers, pack.call);
    return launch(use(std::move(packed), begun.state()), pack.call);
  }

  // Whether PREMUL_SUM begins by multiplying this rank's operand. Several ranks that scale operands
  // as they add them get all factors instead, by an operation that is launched before it.
  bool premultiplies(CollectiveState& state, const CollectiveArgs& args, const CallOptions& call) {
    if (args.op != ReduceOp::premul_sum) return false;
    if (!scales_operands(args.type, args.op) || size() == 1) return true;
    const auto factors = std::make_shared<std::vector<double>>(size());
    (*factors)[rank()] = call.factor;
    std::vector<void*> buffers;
    for (double& factor : *factors) buffers.push_back(&factor);
    CallOptions how;
    how.timeout = call.timeout;
    how.priority = call.priority;
    const auto first = begin(make_args(Collective::all_gather, DataType::float64, 1, args.op),
                             std::move(buffers), how);
    state.gather = first.state();
    state.gather->draft().factors = factors;
    state.draft().factors = factors;
    return false;
  }

  std::shared_ptr<ProgressEngine> engine_;
  const ProtocolLimits limits_;
  const std::shared_ptr<GroupPlanner> plans_;
  RecentCalls recent_;
  CallGroup group_{engine_};
  const bool publishes_;  // peers read this rank's scratch in place
  std::atomic<std::chrono::milliseconds> timeout_;
};

}  // namespace

auto Communicator::create(std::shared_ptr<Store> store, int rank, int size)
    -> std::unique_ptr<Communicator> {
  return create(std::move(store), rank, size, Options::from_environment());
}

auto Communicator::create(std::shared_ptr<Store> store, int rank, int size, const Options& options,
                          const std::string& name) -> std::unique_ptr<Communicator> {
  if (size < 1 || rank < 0 || rank >= size)
    refuse(fmt::format("rank {} of {} ranks: rank must be 0 to size - 1", rank, size));
  if (!store && size > 1) refuse("a group of several ranks needs a store");
  log_configure(options.log_level, rank);
  if (!options.simd.empty()) force_simd_target(options.simd);
  TunerSetup setup(rank, size, options);
  auto engine = ProgressEngine::create(std::move(store), rank, size, options, name, &setup);
  auto tuner = setup.tuner(engine->mesh());
  log(LogLevel::info, "group", fmt::format("{}: rank {} of {} is ready", name, rank, size));
  return std::make_unique<LiveCommunicator>(std::move(engine), options, std::move(tuner));
}

}  // namespace ringwood
