// The calls that move elements and reduce none: broadcast, gathers, scatter, all_to_all. Lists of
// tensors go to the communicator as they lie in memory, without flattening.
#include <c10/util/irange.h>

#include <tuple>
#include <utility>

#include "torch-bridge/backend.h"
#include "torch-bridge/call_checks.h"
#include "torch-bridge/list_checks.h"
#include "torch-bridge/parts.h"
#include "torch-bridge/tensors.h"

namespace ringwood {

using c10d::OpType;

TorchBackend::Made TorchBackend::broadcast(List& tensors, const c10d::BroadcastOptions& opts) {
  const CallChecks call("broadcast", *this);
  Tensors memory;
  call.root(opts.rootRank, size_);
  call.root_tensor(opts.rootTensor);
  const at::Tensor& tensor = call.single(tensors);
  const bool root = rank_ == opts.rootRank;
  if (root)
    call.placed(tensor);
  else
    call.written(tensor);
  const DataType type = call.moved(tensor);
  const Block data = memory.update(tensor, root, !root);
  const CallOptions how = with(placed(call, memory, opts), memory.take_copied());
  return run(
      {OpType::BROADCAST, "ringwood:broadcast"}, how, tensors, std::move(memory),
      [&](Communicator& group) -> Operations {
        return {group.broadcast(data.data, data.count, type, static_cast<int>(opts.rootRank), how)};
      });
}

TorchBackend::Made TorchBackend::gather_lists(Kind kind, const char* method,
                                              const std::vector<List>& outputs, const List& inputs,
                                              const CallOptions& given) {
  const CallChecks call(method, *this);
  Tensors memory;
  List all;
  for (const auto i : c10::irange(inputs.size())) {
    const at::Tensor& input = inputs[i];
    const List& list = outputs[i];
    call.placed(input);
    for (const auto rank : c10::irange(list.size())) {
      call.placed(list[rank]);
      call.same_type(input, list[rank], rank);
    }
    if (list[rank_].sizes() != input.sizes()) call.wrong_size(input, list[rank_], rank_);
    all.insert(all.end(), list.begin(), list.end());
  }
  call.distinct(all);
  const CallOptions how = placed(call.device(), memory, given);
  const Ranges written(all, inputs.size() > 1);
  std::vector<std::tuple<ConstBlock, std::vector<Block>, DataType, CallOptions>> parts;
  for (const auto i : c10::irange(inputs.size())) {
    const bool in_place = Tensors::is_block(inputs[i], outputs[i][rank_], 0);
    const ConstBlock in = memory.read(inputs[i], written.written_over(inputs[i], in_place));
    parts.emplace_back(in, std::vector<Block>(), call.moved(inputs[i]), how);
  }
  write_parts(parts, outputs, !written.disjoint(), memory);
  return run(std::move(kind), how, inputs, std::move(memory), [&](Communicator& group) {
    return begin_all(group, parts, [&](const auto& in, const auto& out, auto type, auto& part) {
      return group.all_gather(in, out, type, part);
    });
  });
}

TorchBackend::Made TorchBackend::allgather(std::vector<List>& outputs, List& inputs,
                                           const c10d::AllgatherOptions& opts) {
  const CallChecks call("allgather", *this);
  call.single(inputs);
  call.require_here(outputs.size() == 1,
                    "requires input/output tensor lists to have the same length");
  if (outputs[0].size() != static_cast<size_t>(size_)) {
    call.refuse_here(c10::str("invalid output tensor list at index 0 (expected length ", size_,
                              ", got ", outputs[0].size(), ")"));
  }
  return gather_lists({OpType::ALLGATHER, "ringwood:all_gather"}, "allgather", outputs, inputs,
                      call_options(opts));
}

TorchBackend::Made TorchBackend::allgather_coalesced(std::vector<List>& outputs, List& inputs,
                                                     const c10d::AllgatherOptions& opts) {
  const CallChecks call("allgather_coalesced", *this);
  call.require(!inputs.empty(), "requires non-empty input tensor list");
  call.require_here(outputs.size() == static_cast<size_t>(size_),
                    "output lists should be equal to world size");
  std::vector<List> by_input(inputs.size());
  for (const List& theirs : outputs) {
    if (theirs.size() != inputs.size()) {
      call.refuse_here(c10::str("invalid output size: (expected length ", inputs.size(), ", got ",
                                theirs.size(), ")"));
    }
    for (const auto i : c10::irange(inputs.size())) {
      call.same_size(inputs[i], theirs[i], i);
      by_input[i].push_back(theirs[i]);
    }
  }
  return gather_lists({OpType::ALLGATHER_COALESCED, "ringwood:all_gather"}, "allgather_coalesced",
                      by_input, inputs, call_options(opts));
}

TorchBackend::Made TorchBackend::gather_blocks(Kind kind, const char* method, const List& outputs,
                                               const List& inputs, const CallOptions& given) {
  const CallChecks call(method, *this);
  Tensors memory;
  call.require(!inputs.empty(), "requires non-empty input tensor list");
  call.require_here(inputs.size() == outputs.size(),
                    "requires input/output tensor lists to have the same length");
  for (const auto i : c10::irange(inputs.size())) {
    const at::Tensor &input = inputs[i], &output = outputs[i];
    call.placed(input);
    call.placed(output);
    call.blocks(output, input, size_, "output tensor must have the same type as input tensor",
                "output tensor size must be equal to world_size times input tensor size");
  }
  call.distinct(outputs);
  const CallOptions how = placed(call.device(), memory, given);
  const Ranges written(outputs, outputs.size() > 1);
  std::vector<std::tuple<ConstBlock, Block, DataType, CallOptions>> parts;
  for (const auto i : c10::irange(inputs.size())) {
    const bool in_place = Tensors::is_block(inputs[i], outputs[i], rank_);
    const ConstBlock in = memory.read(inputs[i], written.written_over(inputs[i], in_place));
    parts.emplace_back(in, Block(), call.moved(inputs[i]), how);
  }
  write_parts(parts, outputs, !written.disjoint(), memory);
  return run(std::move(kind), how, inputs, std::move(memory), [&](Communicator& group) {
    return begin_all(group, parts, [&](const auto& in, const auto& out, auto type, auto& part) {
      return group.all_gather(in.data, out.data, in.count, type, part);
    });
  });
}

TorchBackend::Made TorchBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& opts) {
  return gather_blocks({OpType::_ALLGATHER_BASE, "ringwood:all_gather"}, "_allgather_base",
                       {output}, {input}, call_options(opts));
}

TorchBackend::Made TorchBackend::allgather_into_tensor_coalesced(
    List& outputs, List& inputs, const c10d::AllgatherOptions& opts) {
  return gather_blocks({OpType::COALESCED, "ringwood:all_gather"},
                       "allgather_into_tensor_coalesced", outputs, inputs, call_options(opts));
}

TorchBackend::Made TorchBackend::gather(std::vector<List>& outputs, List& inputs,
                                        const c10d::GatherOptions& opts) {
  const CallChecks call("gather", *this);
  Tensors memory;
  call.root(opts.rootRank, size_);
  const at::Tensor& input = call.single(inputs);
  call.placed(input);
  const DataType type = call.moved(input);
  std::vector<Block> out;
  bool apart = false;
  if (rank_ == opts.rootRank) {
    const List& list = root_list(call, outputs, input, size_, "output");
    call.distinct(list);
    apart = Ranges(list).written_over(input);
    out = memory.write(list);
  } else {
    call.require_here(nothing(outputs), "requires empty output on non-root");
  }
  const ConstBlock in = memory.read(input, apart);
  const CallOptions how = with(placed(call, memory, opts), memory.take_copied());
  return run({OpType::GATHER, "ringwood:gather"}, how, inputs, std::move(memory),
             [&](Communicator& group) -> Operations {
               return {group.gather(in, out, type, static_cast<int>(opts.rootRank), how)};
             });
}

TorchBackend::Made TorchBackend::scatter(List& outputs, std::vector<List>& inputs,
                                         const c10d::ScatterOptions& opts) {
  const CallChecks call("scatter", *this);
  Tensors memory;
  call.root(opts.rootRank, size_);
  const at::Tensor& output = call.single(outputs);
  call.written(output);
  const DataType type = call.moved(output);
  std::vector<ConstBlock> in;
  if (rank_ == opts.rootRank) {
    for (const at::Tensor& input : root_list(call, inputs, output, size_, "input")) {
      in.push_back(memory.read(input, Tensors::overlap(input, output)));
    }
  } else {
    call.require_here(nothing(inputs), "requires empty input on non-root");
  }
  const Block out = memory.write(output);
  const CallOptions how = with(placed(call, memory, opts), memory.take_copied());
  return run({OpType::SCATTER, "ringwood:scatter"}, how, nothing(inputs) ? List() : inputs[0],
             std::move(memory), [&](Communicator& group) -> Operations {
               return {group.scatter(in, out, type, static_cast<int>(opts.rootRank), how)};
             });
}

TorchBackend::Made TorchBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& opts) {
  const CallChecks call("alltoall_base", *this);
  Tensors memory;
  call.placed(input);
  call.written(output);
  call.same_type(input, output, 0);
  const auto in_counts = split_counts(call, input, input_splits, size_);
  const auto out_counts = split_counts(call, output, output_splits, size_);
  if (in_counts[rank_] != out_counts[rank_]) {
    call.refuse_here(c10::str("sends ", in_counts[rank_], " elements to itself, and expects ",
                              out_counts[rank_]));
  }
  const DataType type = call.moved(input);
  const size_t bytes = input.element_size();
  const auto in =
      pieces<const char>(memory.read(input, Tensors::overlap(input, output)), in_counts, bytes);
  const auto out = pieces<char>(memory.write(output), out_counts, bytes);
  const CallOptions how = with(placed(call, memory, opts), memory.take_copied());
  return run({OpType::ALLTOALL_BASE, "ringwood:all_to_all", {}, -1, input_splits, output_splits},
             how, {input}, std::move(memory), [&](Communicator& group) -> Operations {
               return {group.all_to_all(in, out, type, how)};
             });
}

TorchBackend::Made TorchBackend::alltoall(List& outputs, List& inputs,
                                          const c10d::AllToAllOptions& opts) {
  const CallChecks call("alltoall", *this);
  Tensors memory;
  const auto size = static_cast<size_t>(size_);
  if (inputs.size() != size) {
    call.refuse_here(
        c10::str("input tensor list size ", inputs.size(), " does not match world size ", size_));
  }
  if (outputs.size() != size) {
    call.refuse_here(
        c10::str("output tensor list size ", outputs.size(), " does not match world size ", size_));
  }
  std::vector<ConstBlock> in;
  for (const auto i : c10::irange(size)) {
    call.placed(inputs[i]);
    call.placed(outputs[i]);
    call.same_type(inputs[0], inputs[i], i);
    call.same_type(inputs[0], outputs[i], i);
  }
  if (inputs[rank_].numel() != outputs[rank_].numel())
    call.wrong_size(inputs[rank_], outputs[rank_], rank_);
  call.distinct(outputs);
  const DataType type = call.moved(inputs[0]);
  const Ranges written(outputs);
  for (const at::Tensor& input : inputs)
    in.push_back(memory.read(input, written.written_over(input)));
  const std::vector<Block> out = memory.write(outputs);
  const CallOptions how = with(placed(call, memory, opts), memory.take_copied());
  return run(
      {OpType::ALLTOALL, "ringwood:all_to_all"}, how, inputs, std::move(memory),
      [&](Communicator& group) -> Operations { return {group.all_to_all(in, out, type, how)}; });
}

}  // namespace ringwood
