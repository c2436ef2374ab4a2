#include "collectives/device/group/kernels.h"

#include <algorithm>

#include "collectives/device/bind_words.h"

namespace ringwood::device {
namespace {

// The folds that a type can have: those of its operations, whole or in parts.
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const TypeTraits& type : kTypeTraits)
    for (const OpTraits& op : kOpTraits)
      for (const bool whole : {false, true}) {
        if (!supports(type.type, op.op)) continue;
        std::string name = kernel_of(type.type, fold_of(type.type, op.op, 2, whole).fold);
        if (std::ranges::find(all, name) == all.end()) all.push_back(std::move(name));
      }
  return all;
}

}  // namespace

Kernels::Kernels(const cuda::Device& device, std::span<const void* const> images) {
  if (images.empty())
    throw Error(ErrorCode::unsupported,
                "this build of Ringwood has no kernels for GPUs: build it where a CUDA compiler "
                "(nvcc) is, as tools/setup brings one, or move the tensors to the host");
  for (const void* image : images)
    modules_.push_back(std::make_unique<cuda::Module>(device, image));
  for (const std::string& name : names()) {
    for (const auto& module : modules_) {
      if (cuda::CUfunction function = module->find(name.c_str())) {
        functions_[name] = function;
        break;
      }
    }
    if (!functions_.contains(name))
      throw Error(ErrorCode::internal, "the kernel " + name + " is in none of the images");
  }
}

}  // namespace ringwood::device
