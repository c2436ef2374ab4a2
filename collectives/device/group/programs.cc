#include "collectives/device/group/programs.h"

#include <algorithm>

#include <fmt/format.h>

namespace ringwood::device {
namespace {

constexpr size_t kUnit = 256;
constexpr size_t kArena = size_t{2} << 20;
size_t rounded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

}  // namespace

Programs::Programs(const cuda::Device& device, int rank, int n)
    : device_(device), rank_(rank), n_(n), stream_(device) {}

Programs::Key Programs::key_of(const ProgramShape& shape) {
  const CollectiveArgs& args = shape.args;
  return {static_cast<int>(args.collective),
          static_cast<int>(args.type),
          static_cast<int>(args.op),
          args.root,
          args.count,
          shape.row,
          shape.packets,
          shape.segments,
          shape.buffers.staged,
          shape.buffers.in_place,
          shape.buffers.user_block};
}

const UploadedProgram* Programs::find(const ProgramShape& shape) const {
  const auto known = programs_.find(key_of(shape));
  return known == programs_.end() ? nullptr : known->second.get();
}

const ProvedProgram& Programs::proved(const ProgramShape& shape) {
  const auto key = std::tuple(shape.row, shape.args.root, shape.packets);
  if (const auto known = proved_.find(key); known != proved_.end()) return known->second;
  const Where where{rank_, n_, shape.args.root, {}, {}};
  std::string why;
  auto made =
      lower_proved(shape.args.collective, build_all(*shape.row, where), shape.packets, &why);
  if (!made)
    throw Error(ErrorCode::unsupported,
                fmt::format("the row {} cannot be carried out by GPUs: {}", shape.row->name, why));
  return proved_.emplace(key, std::move(*made)).first->second;
}

cuda::CUdeviceptr Programs::upload(const void* data, size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  if (memory_.empty() || used_ + bytes > memory_.back().bytes()) {
    memory_.emplace_back(device_, std::max(kArena, bytes));
    used_ = 0;
  }
  const cuda::CUdeviceptr at = memory_.back().base() + used_;
  used_ += rounded(bytes);
  if (!data) return at;  // of an empty list
  const cuda::CurrentContext current(device_);
  const cuda::BesideCaptures beside(device_);
  device_.require(device_.driver().memory.copy_to_device(at, data, bytes, stream_.get()),
                  "cuMemcpyHtoDAsync");
  stream_.synchronize();
  return at;
}

const UploadedProgram& Programs::add(
    const ProgramShape& shape, const std::function<cuda::CUfunction(const std::string&)>& kernel) {
  auto made = std::make_unique<UploadedProgram>();
  if (shape.row) {
    const ProvedProgram& program = proved(shape);
    made->bound = bind_words(program, rank_, shape.args, shape.segments, shape.buffers);
    if (reduces(shape.args.collective))
      made->fold = fold_of(shape.args.type, shape.args.op, n_, program.lowered.whole);
  } else {
    made->bound.words.emplace_back();
    made->bound.operands.emplace_back();
    made->bound.first.push_back(0);
    made->bound.reach.assign(static_cast<size_t>(n_) * kSharedSpaces, 0);
  }
  made->kernel = kernel(kernel_of(shape.args.type, made->fold.fold));
  const auto upload_all = [&](const auto& list) {
    return upload(list.data(), list.size() * sizeof list[0]);
  };
  made->words = upload_all(made->bound.words);
  made->operands = upload_all(made->bound.operands);
  made->reach = upload_all(made->bound.reach);
  return *(programs_[key_of(shape)] = std::move(made));
}

}  // namespace ringwood::device
