#include "collectives/calls/call_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/plan/fingerprint.h"
#include "transports/base/result.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood {

namespace {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};
using Copies = std::vector<Copy>;

std::function<void()> doing(Copies&& copies) {
  if (copies.empty()) return {};
  return [copies = std::move(copies)] {
    for (const Copy& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
  };
}

// Packs the buffers of one rank, for calls of one kind.
class Packer final {
 public:
  Packer(const CollectiveArgs& args, int rank)
      : collective_(args.collective),
        sends_(is_source(args.collective, {rank, 0, args.root})),
        receives_(has_result(args.collective, {rank, 0, args.root})),
        stride_(args.count * size_of(args.type)),
        own_(static_cast<size_t>(rank) * stride_) {}

  // Adds a call whose elements are at `at` in the packed buffer's first block, and at the same
  // place in the others.
  void add(const CallBuffers& call, std::byte* at, size_t bytes) {
    if (cut_from_one_buffer(collective_)) {
      if (sends_) in.push_back({at, call.data, bytes});
      if (receives_ && (!sends_ || reduces(collective_))) out.push_back({call.data, at, bytes});
    } else if (sends_from_input(collective_)) {
      in.push_back({at + own_, call.data, bytes});
      for (size_t r = 0; r < call.blocks.size(); ++r)
        if (call.blocks[r] != call.data) out.push_back({call.blocks[r], at + r * stride_, bytes});
    } else {
      for (size_t r = 0; r < call.blocks.size(); ++r)
        in.push_back({at + r * stride_, call.blocks[r], bytes});
      out.push_back({call.data, at + own_, bytes});
    }
  }
  CallBuffers buffers(std::byte* packed, int size) const {
    if (cut_from_one_buffer(collective_)) return {packed, {}};
    CallBuffers buffers{packed + own_, {}};
    for (size_t r = 0; r < static_cast<size_t>(size); ++r)
      buffers.blocks.push_back(packed + r * stride_);
    return buffers;
  }

  Copies in, out;  // this rank's contribution; the results

 private:
  const Collective collective_;
  const bool sends_, receives_;
  const size_t stride_, own_;  // bytes: of a block; up to this rank's
};

// The driver copies from and to them itself.
void refuse_devices(const char* what, const CallBuffers& buffers) {
  cuda::LoadedDriver::refuse(what, {&buffers.data, 1});
  cuda::LoadedDriver::refuse(what, buffers.blocks);
}

}  // namespace

PackedBuffer pack_calls(const CallPack& pack, int rank, int size) {
  Packer packer(pack.args, rank);
  PackedBuffer packed;
  packed.data = std::make_unique_for_overwrite<std::byte[]>(packed_bytes(pack.args, size));
  packed.buffers = packer.buffers(packed.data.get(), size);
  std::vector<size_t> counts;
  std::byte* at = packed.data.get();
  for (const auto& part : pack.parts) {
    if (cuda::LoadedDriver::known()) [[unlikely]]
      refuse_devices(to_string(pack.args.collective), part.buffers);
    const size_t bytes = part.count * size_of(pack.args.type);
    if (bytes) packer.add(part.buffers, at, bytes);
    counts.push_back(part.count);
    at += bytes;
  }
  packed.parts = hash_counts(counts) | 1;
  for (const Copy& copy : packer.in) packed.footprint.read(copy.from, copy.bytes);
  for (const Copy& copy : packer.out) packed.footprint.write(copy.to, copy.bytes);
  for (const auto& part : pack.parts)
    if (part.copied) packed.copied.push_back(part.copied);
  packed.fill = doing(std::move(packer.in));
  packed.finish = doing(std::move(packer.out));
  return packed;
}

std::shared_ptr<CollectiveState> use(PackedBuffer&& packed,
                                     std::shared_ptr<CollectiveState> operation) {
  CollectiveCall& call = operation->draft();
  call.parts = packed.parts;
  call.at_start.call(std::move(packed.fill));
  call.finish.call(std::move(packed.finish));
  call.touched = std::move(packed.footprint);
  call.temporaries.push_back(std::move(packed.data));
  for (const auto& copied : packed.copied) use_copies(*operation, copied);
  return operation;
}

CallGroup::~CallGroup() {
  if (mine()) (void)take();
}

std::vector<std::pair<uint64_t, CallGroup::Calls>>& CallGroup::of_thread() {
  static thread_local std::vector<std::pair<uint64_t, Calls>> open;
  return open;
}

CallGroup::Calls* CallGroup::mine() const noexcept {
  for (auto& [number, calls] : of_thread())
    if (number == number_) return &calls;
  return nullptr;
}

void CallGroup::start() {
  if (Calls* const calls = mine()) {
    ++calls->depth;
    return;
  }
  of_thread().emplace_back(number_, Calls{.depth = 1, .entries = {}, .synchronous = {}});
  threads_.fetch_add(1);
}

CallGroup::Calls CallGroup::take() {
  auto& open = of_thread();
  const auto it = std::ranges::find(open, number_, &std::pair<uint64_t, Calls>::first);
  Calls calls = std::move(it->second);
  open.erase(it);
  threads_.fetch_sub(1);
  return calls;
}

std::shared_ptr<GroupedOperation> CallGroup::make(const char* name, const CallOptions& call) {
  auto operation = std::make_shared<GroupedOperation>(name, driver_);
  if (call.synchronous) mine()->synchronous.push_back(operation);
  return operation;
}

OperationPtr CallGroup::add(const char* name, const CallOptions& call, Launch launch) {
  auto operation = make(name, call);
  mine()->entries.push_back(Single{std::move(launch), operation});
  return operation;
}

// Ignores what each rank may set for itself (timeout, synchronous); otherwise packs would differ.
bool CallGroup::joins(const CallPack& pack, const CollectiveArgs& args, const CallOptions& call) {
  const CollectiveArgs& s = pack.args;
  return s.collective == args.collective && s.type == args.type && s.op == args.op &&
         s.root == args.root && pack.call.tolerance == call.tolerance &&
         pack.call.priority == call.priority;
}

OperationPtr CallGroup::add(const CollectiveArgs& args, CallBuffers buffers,
                            const CallOptions& call) {
  auto operation = make(to_string(args.collective), call);
  std::vector<Entry>& entries = mine()->entries;
  for (Entry& entry : entries) {
    auto* const pack = std::get_if<CallPack>(&entry);
    if (!pack || !joins(*pack, args, call)) continue;
    pack->args.count += args.count;
    pack->parts.push_back({std::move(buffers), args.count, operation, call.copied});
    if (call.timeout.count() > 0 &&
        (pack->call.timeout.count() == 0 || call.timeout < pack->call.timeout))
      pack->call.timeout = call.timeout;
    return operation;
  }
  CallPack pack{args, call, {}};
  pack.parts.push_back({std::move(buffers), args.count, operation, call.copied});
  pack.call.synchronous = false;
  pack.call.copied = nullptr;
  entries.emplace_back(std::move(pack));
  return operation;
}

void CallGroup::launch(const Entry& entry, const LaunchPack& launch_pack) {
  const auto* const pack = std::get_if<CallPack>(&entry);
  const auto tell = [&](auto&& what) {
    if (!pack) return what(*std::get<Single>(entry).operation);
    for (const auto& part : pack->parts) what(*part.operation);
  };
  try {
    const auto carrier = pack ? launch_pack(*pack) : std::get<Single>(entry).launch();
    tell([&](GroupedOperation& operation) { operation.carry(carrier); });
  } catch (...) {
    const Error error = caught_error();
    tell([&](GroupedOperation& operation) { operation.refuse(error); });
  }
}

void CallGroup::end(const LaunchPack& launch_pack) {
  Calls* const calls = mine();
  if (!calls)
    throw Error(ErrorCode::invalid_argument,
                "group_end: this thread has called no group_start before it");
  if (--calls->depth > 0) return;
  const Calls taken = take();
  for (const Entry& entry : taken.entries) launch(entry, launch_pack);
  for (const auto& operation : taken.synchronous) (void)operation->wait({});
}

}  // namespace ringwood
