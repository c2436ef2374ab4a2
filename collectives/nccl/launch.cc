// Carries out the calls of a group.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "collectives/kernels/types.h"
#include "collectives/nccl/call.h"
#include "collectives/nccl/device_calls.h"
#include "collectives/nccl/memory.h"

namespace ringwood::nccl {
namespace {

constexpr std::array kNames = {
    "ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclAllGather", "ncclReduceScatter",
    "ncclAlltoAll",  "ncclGather", "ncclScatter",   "ncclSend",      "ncclRecv"};

using Calls = std::vector<const Call*>;

// Comms in the order of their first calls, each with its calls.
std::vector<std::pair<ncclComm*, Calls>> by_comm(const Calls& calls) {
  std::vector<std::pair<ncclComm*, Calls>> all;
  for (const Call* call : calls) {
    auto at = std::ranges::find(all, call->comm.get(), [](const auto& one) { return one.first; });
    if (at == all.end()) at = all.insert(at, {call->comm.get(), {}});
    at->second.push_back(call);
  }
  return all;
}

// Collective of each communicator: side by side, since one thread may have all ranks.
void make_device_calls(const std::vector<std::pair<ncclComm*, Calls>>& comms) {
  std::vector<const Call*> first;
  for (const auto& [comm, calls] : comms) {
    if (!comm->device) first.push_back(calls.front());
  }
  std::vector<std::unique_ptr<Error>> errors(first.size());
  in_threads(first.size(), [&](size_t i) {
    try {
      ncclComm& comm = *first[i]->comm;
      comm.device = std::make_unique<DeviceCalls>(*comm.group, first[i]->gpu);
    } catch (...) {
      errors[i] = std::make_unique<Error>(caught_error());
    }
  });
  for (const auto& error : errors)
    if (error) throw Error(*error);
}

void launch_on_devices(const Calls& calls) {
  const auto comms = by_comm(calls);
  make_device_calls(comms);
  for (const auto& [comm, own] : comms)
    for (const Call* call : own) {
      if (call->gpu != comm->device->gpu())
        refuse(fmt::format("{}: the buffer is of GPU {}, and this communicator's is {}",
                           to_string(call->kind), call->gpu, comm->device->gpu()));
      try {
        comm->device->enqueue(*call);
      } catch (Error& error) {
        if (error.code == ErrorCode::system) error.transport = kCuda;
        throw;
      }
    }
}

bool is_to_itself(const Call& call) {
  return (call.kind == Kind::send || call.kind == Kind::recv) && call.root == call.comm->rank;
}

// The sends of a rank to itself, to the receives of the same group in turn.
void copy_to_itself(const Calls& calls) {
  Calls sends, receives;
  for (const Call* call : calls)
    if (is_to_itself(*call)) (call->kind == Kind::send ? sends : receives).push_back(call);
  if (sends.size() != receives.size())
    refuse_to_use(
        fmt::format("rank {} sends {} messages to itself and receives {} in one group: both ends "
                    "must be in the same group",
                    calls.front()->comm->rank, sends.size(), receives.size()));
  for (size_t i = 0; i < sends.size(); ++i) {
    const size_t bytes = sends[i]->count * size_of(sends[i]->type);
    if (bytes != receives[i]->count * size_of(receives[i]->type))
      refuse_to_use(fmt::format("rank {} sends itself {} B and receives {} B", sends[i]->comm->rank,
                                bytes, receives[i]->count * size_of(receives[i]->type)));
    std::memmove(receives[i]->out, sends[i]->in, bytes);
  }
}

void launch_on_hosts(const Calls& calls, std::vector<Launched>& launched) {
  if (calls.empty()) return;
  // What the streams were given before is done first.
  for (const Call* call : calls) synchronize(call->stream, call->comm->ordinal);
  const bool alone = calls.size() == 1;
  for (const auto& [comm, own] : by_comm(calls)) {
    copy_to_itself(own);
    if (alone) {
      if (!is_to_itself(*own.front())) launched.push_back(launch_on_host(*own.front(), true));
      continue;
    }
    const GroupOfCalls group(*comm->group);
    for (const Call* call : own)
      if (!is_to_itself(*call)) launched.push_back(launch_on_host(*call, false));
  }
}

// Throws the first error, when all have ended: until then the buffers are theirs.
void wait_for_all(const std::vector<Launched>& launched) {
  std::unique_ptr<Error> first;
  for (const Launched& one : launched) {
    Status done = one.operation->wait();
    if (done && one.finish) one.finish();
    if (done) continue;
    one.comm->keep_sentence(done.error().message());
    if (!first) first = std::make_unique<Error>(std::move(done.error()));
  }
  if (first) throw Error(*first);
}

}  // namespace

const char* to_string(Kind kind) { return kNames[static_cast<size_t>(kind)]; }
bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

void launch(const std::vector<Call>& calls) {
  Calls on_devices, on_hosts;
  for (const Call& call : calls) (call.gpu >= 0 ? on_devices : on_hosts).push_back(&call);
  std::vector<Launched> launched;
  std::exception_ptr failed;
  try {
    launch_on_devices(on_devices);
    launch_on_hosts(on_hosts, launched);
  } catch (...) {
    failed = std::current_exception();
  }
  wait_for_all(launched);
  if (failed) std::rethrow_exception(failed);
}

}  // namespace ringwood::nccl
