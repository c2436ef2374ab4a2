// The calls that reduce: all_reduce, reduce, reduce_scatter.
#include <c10/util/irange.h>

#include <tuple>
#include <utility>

#include "torch-bridge/backend.h"
#include "torch-bridge/call_checks.h"
#include "torch-bridge/errors.h"
#include "torch-bridge/interrupt.h"
#include "torch-bridge/parts.h"
#include "torch-bridge/sparse.h"
#include "torch-bridge/tensors.h"

namespace ringwood {

using c10d::OpType;

Reduction TorchBackend::reduction(const CallChecks& call, const at::Tensor& tensor,
                                  const c10d::ReduceOp& op, Tensors& memory) const {
  Reduction by = call.reduced(tensor, op);
  if (size_ > 1 || by.op != ReduceOp::premul_sum || call.device().is_cpu()) return by;
  memory.multiply_by_stream(by.factor);
  by.op = ReduceOp::sum;
  by.factor = 1;
  return by;
}

TorchBackend::Made TorchBackend::allreduce(List& tensors, const c10d::AllreduceOptions& opts) {
  const CallChecks call("allreduce", *this);
  Tensors memory;
  const at::Tensor& tensor = call.single(tensors);
  if (tensor.is_sparse()) return allreduce_sparse(tensors, opts);
  call.written(tensor);
  const Reduction by = reduction(call, tensor, opts.reduceOp, memory);
  const Block data = memory.update(tensor);
  const CallOptions how = with(placed(call, memory, opts, by.factor), memory.take_copied());
  return run({OpType::ALLREDUCE, "ringwood:all_reduce"}, how, tensors, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.all_reduce(data.data, data.count, by.type, by.op, how)};
             });
}

TorchBackend::Made TorchBackend::allreduce_coalesced(List& tensors,
                                                     const c10d::AllreduceCoalescedOptions& opts) {
  const CallChecks call("allreduce_coalesced", *this);
  Tensors memory;
  call.require(!tensors.empty(), "requires non-empty tensor list");
  std::vector<Reduction> reductions;
  for (const at::Tensor& tensor : tensors) {
    call.written(tensor);
    reductions.push_back(reduction(call, tensor, opts.reduceOp, memory));
  }
  call.distinct(tensors);
  std::vector<std::tuple<Block, Reduction, CallOptions>> parts;
  for (auto& [block, copied] : memory.update_parts(tensors)) {
    const Reduction& by = reductions[parts.size()];
    parts.emplace_back(block, by, with(placed(call, memory, opts, by.factor), std::move(copied)));
  }
  const CallOptions how = std::get<CallOptions>(parts[0]);
  return run({OpType::ALLREDUCE_COALESCED, "ringwood:all_reduce"}, how, tensors, std::move(memory),
             [&](Communicator& group) {
               return begin_all(group, parts, [&](const auto& data, auto& by, auto& part) {
                 return group.all_reduce(data.data, data.count, by.type, by.op, part);
               });
             });
}

TorchBackend::Made TorchBackend::allreduce_sparse(List& tensors,
                                                  const c10d::AllreduceOptions& opts) {
  const CallChecks call("allreduce_sparse", *this);
  const at::Tensor& tensor = call.single(tensors);
  call.require(tensor.is_sparse(), "requires a sparse COO tensor");
  call.require(tensor.is_cpu(), "sparse tensors have to be on the CPU: move them there");
  call.require(tensor.dim() <= SparseSum::kMaxDimensions, "too many dimensions");
  call.require(opts.reduceOp.op_ == c10d::ReduceOp::SUM,
               "unsupported reduction operation: sparse tensors can only be summed");
  const DataType type = call.reduced(tensor, opts.reduceOp).type;
  usable();
  auto sum = std::make_shared<SparseSum>(tensor, size_);
  CallOptions how = call_options(opts);
  how.synchronous = true;
  how.copied = sum->reading();
  const ConstBlock shape = sum->shape();
  const Status met = guarded(*note(), [&] {
    return communicator()
        ->all_gather(shape.data, sum->shapes(), shape.count, DataType::int64, how)
        ->wait();
  });
  rethrow_interrupt();
  if (!met) raise(met.error(), *note());
  sum->allocate(call);

  Tensors memory;
  const ConstBlock indices = memory.read(sum->indices()), values = memory.read(sum->values());
  const auto all_indices = memory.write(sum->all_indices()),
             all_values = memory.write(sum->all_values());
  memory.set_outputs({tensor});
  memory.own(sum);
  how.synchronous = !opts.asyncOp;
  how.copied = SparseSum::writing(sum, 2);
  return run({OpType::_ALLREDUCE_SPARSE, "ringwood:sparse_all_reduce"}, how, tensors,
             std::move(memory), [&](Communicator& group) -> Operations {
               return {group.all_gather(indices, all_indices, DataType::int64, how),
                       group.all_gather(values, all_values, type, how)};
             });
}

TorchBackend::Made TorchBackend::reduce(List& tensors, const c10d::ReduceOptions& opts) {
  const CallChecks call("reduce", *this);
  Tensors memory;
  call.root(opts.rootRank, size_);
  call.root_tensor(opts.rootTensor);
  const at::Tensor& tensor = call.single(tensors);
  const bool root = rank_ == opts.rootRank;
  if (root)
    call.written(tensor);
  else
    call.placed(tensor);
  const Reduction by = reduction(call, tensor, opts.reduceOp, memory);
  const Block data = memory.update(tensor, true, root);
  const CallOptions how = with(placed(call, memory, opts, by.factor), memory.take_copied());
  return run({OpType::REDUCE, "ringwood:reduce"}, how, tensors, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.reduce(data.data, data.count, by.type, by.op,
                                    static_cast<int>(opts.rootRank), how)};
             });
}

TorchBackend::Made TorchBackend::reduce_scatter(List& outputs, std::vector<List>& inputs,
                                                const c10d::ReduceScatterOptions& opts) {
  const CallChecks call("reduce_scatter", *this);
  Tensors memory;
  const at::Tensor& output = call.single(outputs);
  call.require_here(inputs.size() == 1,
                    "requires input/output tensor lists to have the same length");
  const List& list = inputs[0];
  if (list.size() != static_cast<size_t>(size_)) {
    call.refuse_here(c10::str("invalid input tensor list at index 0 (expected length ", size_,
                              ", got ", list.size(), ")"));
  }
  call.written(output);
  const Reduction by = reduction(call, output, opts.reduceOp, memory);
  for (const auto i : c10::irange(list.size())) {
    call.placed(list[i]);
    call.same_type(output, list[i], i);
  }
  if (list[rank_].sizes() != output.sizes()) call.wrong_size(output, list[rank_], rank_);
  std::vector<ConstBlock> in;
  for (const auto i : c10::irange(list.size())) {
    const bool in_place = static_cast<int>(i) == rank_ && Tensors::is_block(output, list[i], 0);
    in.push_back(memory.read(list[i], !in_place && Tensors::overlap(list[i], output)));
  }
  const Block out = memory.write(output);
  const CallOptions how = with(placed(call, memory, opts, by.factor), memory.take_copied());
  return run({OpType::REDUCE_SCATTER, "ringwood:reduce_scatter"}, how, list, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.reduce_scatter(in, out, by.type, by.op, how)};
             });
}

TorchBackend::Made TorchBackend::scatter_blocks(Kind kind, const char* method, const List& outputs,
                                                const List& inputs,
                                                const c10d::ReduceScatterOptions& opts) {
  const CallChecks call(method, *this);
  Tensors memory;
  call.require(!inputs.empty(), "requires non-empty input tensor list");
  call.require_here(inputs.size() == outputs.size(),
                    "requires input/output tensor lists to have the same length");
  for (const auto i : c10::irange(inputs.size())) {
    const at::Tensor &input = inputs[i], &output = outputs[i];
    call.placed(input);
    call.placed(output);
    call.blocks(input, output, size_, "input tensor must be the same type as the output tensor.",
                "input tensor must be the same size as output size times world size");
  }
  call.distinct(outputs);
  const Ranges written(outputs, outputs.size() > 1);
  std::vector<std::tuple<ConstBlock, Block, Reduction, CallOptions>> parts;
  for (const auto i : c10::irange(inputs.size())) {
    const Reduction by = reduction(call, inputs[i], opts.reduceOp, memory);
    const bool in_place = Tensors::is_block(outputs[i], inputs[i], rank_);
    const ConstBlock in = memory.read(inputs[i], written.written_over(inputs[i], in_place));
    parts.emplace_back(in, Block(), by, placed(call, memory, opts, by.factor));
  }
  write_parts(parts, outputs, !written.disjoint(), memory);
  const CallOptions how = std::get<CallOptions>(parts[0]);
  return run(std::move(kind), how, inputs, std::move(memory), [&](Communicator& group) {
    return begin_all(group, parts, [&](const auto& in, const auto& out, auto& by, auto& part) {
      return group.reduce_scatter(in.data, out.data, out.count, by.type, by.op, part);
    });
  });
}

TorchBackend::Made TorchBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& opts) {
  return scatter_blocks({OpType::_REDUCE_SCATTER_BASE, "ringwood:reduce_scatter"},
                        "_reduce_scatter_base", {output}, {input}, opts);
}

TorchBackend::Made TorchBackend::reduce_scatter_tensor_coalesced(
    List& outputs, List& inputs, const c10d::ReduceScatterOptions& opts) {
  return scatter_blocks({OpType::COALESCED, "ringwood:reduce_scatter", {}, -1, {}, {}, true},
                        "reduce_scatter_tensor_coalesced", outputs, inputs, opts);
}

}  // namespace ringwood
