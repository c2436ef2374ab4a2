// How a call becomes a Work: begun, recorded, and shown to a profiler in the form that its tools
// read (record_param_comms, as of ProcessGroupNCCL).
#include <ATen/record_function.h>

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <tuple>
#include <utility>

#include "torch-bridge/errors.h"
#include "torch-bridge/flight_recorder.h"
#include "torch-bridge/interpreter_end.h"
#include "torch-bridge/interrupt.h"
#include "torch-bridge/live_backend.h"
#include "torch-bridge/tensors.h"
#include "torch-bridge/work.h"

// Torch 2.11 does not note whether a call is asynchronous.
#ifdef RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP
#define RINGWOOD_RECORD_CALL(asynchronous, ...) \
  RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(__VA_ARGS__, asynchronous)
#else
#define RINGWOOD_RECORD_CALL(asynchronous, ...) RECORD_PARAM_COMMS_DATA(__VA_ARGS__)
#endif

namespace ringwood {

namespace {

using c10d::OpType;
using Shape = FlightRecorder::Shape;

struct CallName {
  const char* flight;  // as torchfrtrace has them
  const char* comms;   // as torch.profiler's tools have them
  Shape shape = Shape::as_is;
};

CallName name_of(OpType type, bool reduces, bool uneven) {
  switch (type) {
    case OpType::BROADCAST: return {"broadcast", "broadcast"};
    case OpType::ALLREDUCE:
    case OpType::_ALLREDUCE_SPARSE: return {"all_reduce", "allreduce"};
    case OpType::ALLREDUCE_COALESCED: return {"allreduce_coalesced", "allreduce_coalesced"};
    case OpType::REDUCE: return {"reduce", "reduce"};
    case OpType::ALLGATHER: return {"all_gather", "all_gather", Shape::outputs_in_one};
    case OpType::_ALLGATHER_BASE: return {"_all_gather_base", "_allgather_base"};
    case OpType::ALLGATHER_COALESCED: return {"ALLGATHER_coalesced", "all_gather"};
    case OpType::GATHER: return {"gather", "gather"};
    case OpType::SCATTER: return {"scatter", "scatter"};
    case OpType::REDUCE_SCATTER: return {"reduce_scatter", "reduce_scatter", Shape::inputs_in_one};
    case OpType::_REDUCE_SCATTER_BASE: return {"_reduce_scatter_base", "_reduce_scatter_base"};
    case OpType::ALLTOALL_BASE: return {"all_to_all", uneven ? "all_to_allv" : "all_to_all"};
    case OpType::ALLTOALL: return {"all_to_all", "all_to_all", Shape::both_flat};
    case OpType::SEND: return {"send", "send"};
    case OpType::RECV:
    case OpType::RECVANYSOURCE: return {"recv", "recv"};
    case OpType::BARRIER: return {"barrier", "barrier"};
    case OpType::COALESCED:
      if (!reduces) return {"all_gather_into_tensor_coalesced", "allgather_into_tensor_coalesced"};
      [[fallthrough]];
    default: return {"reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_coalesced"};
  }
}

bool is_message(OpType type) {
  return type == OpType::SEND || type == OpType::RECV || type == OpType::RECVANYSOURCE;
}

// What a message is received in is no input.
const std::vector<at::Tensor>& read_by(OpType type, const std::vector<at::Tensor>& inputs) {
  static const auto* nothing = new std::vector<at::Tensor>;
  return type == OpType::RECV || type == OpType::RECVANYSOURCE ? *nothing : inputs;
}

int64_t elements(const std::vector<at::Tensor>& tensors) {
  int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.numel();
  return sum;
}

}  // namespace

LiveBackend::Made LiveBackend::run_now(Kind kind, uint64_t number, const CallOptions& how,
                                       const List& inputs, Tensors tensors,
                                       c10::function_ref<Operations(Communicator&)> start) {
  const auto communicator = guarded(*note(), [&] { return this->communicator(); });
  FlightRecorder& recorder = FlightRecorder::instance();
  const uint64_t op = ++recorded_.begun;
  FlightRecorder::Ticket ticket;
  if (recorder.on()) {
    const CallName name = name_of(kind.type, kind.reduces, false);
    const auto timeout = how.timeout.count() > 0 ? how.timeout : options_->timeout;
    ticket = recorder.begin({name.flight, name.shape, is_message(kind.type), recorded_.group,
                             kind.peer, number, op, timeout},
                            read_by(kind.type, inputs), tensors.outputs());
  }
  ticket.rank_in_job = recorded_.rank_in_job;
  if (tensors.stream())
    return run_on_stream(std::move(kind), inputs, std::move(tensors), communicator, ticket, start);
  auto work = c10::make_intrusive<Work>(rank_, kind.type, kind.title, inputs, std::move(tensors),
                                        callbacks_, note(), unseen_);
  if (kind.afterwards) work->afterwards(std::move(kind.afterwards));
  work->recorded(ticket);
  begin(kind, ticket, [&] { work->start(start(*communicator)); });
  rethrow_interrupt();
  return work;
}

void LiveBackend::begin(const Kind& kind, FlightRecorder::Ticket ticket,
                        c10::function_ref<void()> start) {
  const auto ended = [&](const char* why) {
    FlightRecorder::instance().end(ticket, false);
    unseen_->seen();
    if (!is_message(kind.type))
      abort_with(c10::str(kind.title, " could not be begun on this rank: ", why));
    stay_if_python_ends();
  };
  try {
    start();
  } catch (const Error& error) {
    ended(error.message().c_str());
    raise(error, *note());
  } catch (const c10::Error& error) {  // torch's own, of a copy
    ended(error.what_without_backtrace());
    throw;
  }
}

LiveBackend::Made LiveBackend::run(Kind kind, const CallOptions& how, const List& inputs,
                                   Tensors tensors,
                                   c10::function_ref<Operations(Communicator&)> start) {
  const bool message = is_message(kind.type);
  const uint64_t number = message ? ++recorded_.messages : ++recorded_.collectives;
  if (!at::hasCallbacks()) [[likely]]
    return run_now(std::move(kind), number, how, inputs, std::move(tensors), start);
  const List& read = read_by(kind.type, inputs);
  const List& outputs = tensors.outputs();
  const List& some = read.empty() ? outputs : read;
  const auto& ranks = options_->global_ranks_in_group;
  const int first = ranks.empty() ? 0 : static_cast<int>(ranks[0]);
  const int stride = ranks.size() > 1 ? static_cast<int>(ranks[1] - ranks[0]) : 1;
  const std::vector<int64_t> in_splits = kind.in_splits.vec(), out_splits = kind.out_splits.vec();
  const char* name =
      name_of(kind.type, kind.reduces, !in_splits.empty() || !out_splits.empty()).comms;
  RINGWOOD_RECORD_CALL(tensors.stream() ? !tensors.on_current_stream() : !how.synchronous,
                       std::make_tuple(static_cast<int64_t>(number), message),
                       std::make_tuple(options_->group_name, getGroupDesc()), read, outputs,
                       message ? kind.peer : rank_, name, elements(read), elements(outputs),
                       some.empty() ? at::kByte : some[0].scalar_type(), in_splits, out_splits,
                       first, stride, size_);
  return run_now(std::move(kind), number, how, inputs, std::move(tensors), start);
}

}  // namespace ringwood
