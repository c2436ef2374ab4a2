// A communicator behind ncclComm_t, and the table of those that live.
//
// The table lets a call refuse a handle that was destroyed, and keeps a communicator alive under
// calls of other threads while it is aborted.
//
// The end of a communicator on GPUs waits for its peers. A program may destroy several of one group
// one after the other in one thread: of such a family in one process, those on GPUs end together,
// with the last.
//
// Thread safety: all functions; `group` and `device` are set once, before the first call.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/nccl/errors.h"

namespace ringwood::nccl {

class DeviceCalls;  // device_calls.h

// Of ncclRedOpCreatePreMulSum().
struct Factor {
  DataType type = DataType::float32;
  double value = 1;
  const void* at = nullptr;  // not null: read when the collective begins
};

}  // namespace ringwood::nccl

struct ncclComm {
  ncclComm(std::string name_of_group, std::string name_of_family);
  ~ncclComm();

  // Throws where it is not ready, or was finalized.
  ringwood::Communicator& usable() const;
  void keep_sentence(const std::string& sentence);
  // The error with which it ended, else the last of its calls; "": none.
  std::string sentence() const;
  ncclRedOp_t add_factor(const ringwood::nccl::Factor& factor);
  void remove_factor(ncclRedOp_t op);
  ringwood::nccl::Factor factor_of(ncclRedOp_t op) const;

  const std::string name, family;
  int rank = 0, size = 1;
  int ordinal = 0;   // of the GPU that the program named
  int children = 0;  // split or shrunk; used by the calls that make them
  std::atomic<bool> ready{false}, finalized{false};
  // Ended from the last to the first.
  std::shared_ptr<ringwood::Store> store;
  std::unique_ptr<ringwood::Communicator> group;
  std::unique_ptr<ringwood::nccl::DeviceCalls> device;  // from the first call on a GPU on

 private:
  mutable std::mutex mutex_;
  std::string sentence_;
  std::vector<std::optional<ringwood::nccl::Factor>> factors_;
};

namespace ringwood::nccl {

using CommPtr = std::shared_ptr<ncclComm>;

// Enters it into the table.
void enter(const CommPtr& comm);
// Null: no live communicator.
CommPtr find_or_null(ncclComm_t handle);
// Throws ncclInvalidArgument.
CommPtr find(ncclComm_t handle);
// Takes it out of the table; it ends, now or with its family.
void retire(const CommPtr& comm);

// work(0) .. work(n - 1), side by side; returns when all have ended. `work` must not throw.
void in_threads(size_t n, const std::function<void(size_t)>& work);

}  // namespace ringwood::nccl
