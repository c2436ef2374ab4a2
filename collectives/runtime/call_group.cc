#include "collectives/runtime/call_group.h"

#include <cstring>
#include <utility>

#include "collectives/fingerprint.h"

namespace ringwood {

PackedBuffer pack_calls(const CallPack& pack, int rank) {
  const size_t element = size_of(pack.shape.type);
  const bool root = pack.shape.root == rank;
  const bool gives = pack.shape.collective != Collective::broadcast || root;
  const bool gets = pack.shape.collective == Collective::all_reduce ||
                    (pack.shape.collective == Collective::reduce) == root;
  PackedBuffer packed;
  packed.data = std::make_unique_for_overwrite<std::byte[]>(pack.shape.count * element);
  std::vector<Block> bytes;
  std::vector<size_t> counts;
  for (const auto& part : pack.parts) {
    counts.push_back(part.count);
    if (part.count == 0) continue;
    bytes.push_back({part.data, part.count * element});
    if (gives) packed.footprint.read(part.data, part.count * element);
    if (gets) packed.footprint.write(part.data, part.count * element);
  }
  packed.parts = hash_counts(counts) | 1;
  if (gives)
    packed.fill = [to = packed.data.get(), bytes] {
      std::byte* at = to;
      for (const Block& from : bytes) {
        std::memcpy(at, from.data, from.count);
        at += from.count;
      }
    };
  if (gets)
    packed.finish = [from = packed.data.get(), bytes = std::move(bytes)] {
      const std::byte* at = from;
      for (const Block& to : bytes) {
        std::memcpy(to.data, at, to.count);
        at += to.count;
      }
    };
  return packed;
}

std::shared_ptr<CollectiveState> use(PackedBuffer&& packed,
                                     std::shared_ptr<CollectiveState> operation) {
  operation->parts = packed.parts;
  operation->at_start = std::move(packed.fill);
  operation->finish = std::move(packed.finish);
  operation->footprint = std::move(packed.footprint);
  operation->temporaries.push_back(std::move(packed.data));
  return operation;
}

void CallGroup::start() {
  std::lock_guard lock(mutex_);
  depth_.fetch_add(1);
}

OperationPtr CallGroup::add(const char* name, const CallOptions& call, Launch launch) {
  auto operation = std::make_shared<GroupedOperation>(name);
  std::lock_guard lock(mutex_);
  entries_.push_back(Single{std::move(launch), operation});
  if (call.synchronous) synchronous_.push_back(operation);
  return operation;
}

// What ranks may set as they like (time, synchronous) makes no difference, or packs would differ.
bool CallGroup::joins(const CallPack& pack, const Shape& shape, const CallOptions& call) {
  const Shape& s = pack.shape;
  return s.collective == shape.collective && s.type == shape.type && s.op == shape.op &&
         s.root == shape.root && pack.call.tolerance == call.tolerance &&
         pack.call.priority == call.priority;
}

OperationPtr CallGroup::add(const Shape& shape, void* data, const CallOptions& call) {
  auto operation = std::make_shared<GroupedOperation>(to_string(shape.collective));
  std::lock_guard lock(mutex_);
  if (call.synchronous) synchronous_.push_back(operation);
  for (Entry& entry : entries_) {
    auto* const pack = std::get_if<CallPack>(&entry);
    if (!pack || !joins(*pack, shape, call)) continue;
    pack->shape.count += shape.count;
    pack->parts.push_back({data, shape.count, operation});
    if (call.timeout.count() > 0 &&
        (pack->call.timeout.count() == 0 || call.timeout < pack->call.timeout))
      pack->call.timeout = call.timeout;
    return operation;
  }
  CallPack pack{shape, call, {{data, shape.count, operation}}};
  pack.call.synchronous = false;
  entries_.emplace_back(std::move(pack));
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
  std::vector<Entry> entries;
  std::vector<std::shared_ptr<GroupedOperation>> synchronous;
  {
    std::lock_guard lock(mutex_);
    if (!open())
      throw Error(ErrorCode::invalid_argument, "group_end: there was no group_start before it");
    if (depth_.fetch_sub(1) > 1) return;
    entries.swap(entries_);
    synchronous.swap(synchronous_);
  }
  for (const Entry& entry : entries) launch(entry, launch_pack);
  for (const auto& operation : synchronous) (void)operation->wait({});
}

}  // namespace ringwood
