#include "collectives/nccl/comm.h"

#include <algorithm>
#include <map>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "collectives/nccl/device_calls.h"
#include "transports/base/thread.h"

namespace ringwood::nccl {
namespace {

struct Family {
  int live = 0;
  std::vector<CommPtr> retired;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, CommPtr> live;
  std::map<std::string, Family> families;
};
// Never destroyed: what a program has not destroyed itself is left to the end of the process.
Table& table() {
  static auto* const all = new Table;
  return *all;
}

}  // namespace

void enter(const CommPtr& comm) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.live[comm.get()] = comm;
  ++all.families[comm->family].live;
}

CommPtr find_or_null(ncclComm_t handle) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto at = all.live.find(handle);
  return at == all.live.end() ? nullptr : at->second;
}

CommPtr find(ncclComm_t handle) {
  CommPtr comm = handle ? find_or_null(handle) : nullptr;
  if (!comm)
    refuse(handle ? "the communicator was destroyed or aborted, or is none"
                  : "the communicator is null");
  return comm;
}

void retire(const CommPtr& comm) {
  std::vector<CommPtr> ended;
  {
    Table& all = table();
    const std::lock_guard lock(all.mutex);
    if (all.live.erase(comm.get()) == 0) return;
    Family& family = all.families[comm->family];
    const bool waits_for_peers = comm->device && comm->group && comm->group->health();
    if (waits_for_peers) family.retired.push_back(comm);
    if (--family.live == 0) {
      ended = std::move(family.retired);
      all.families.erase(comm->family);
    }
  }
  // The caller's own pointer is not the last one where the end must happen elsewhere.
  in_threads(ended.size(), [&](size_t i) { ended[i]->device.reset(); });
}

void in_threads(size_t n, const std::function<void(size_t)>& work) {
  if (n == 1) return work(0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < n; ++i)
    threads.push_back(start_thread("ringwood-nccl", [&work, i] { work(i); }));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ringwood::nccl

using ringwood::nccl::Factor;

ncclComm::ncclComm(std::string name_of_group, std::string name_of_family)
    : name(std::move(name_of_group)), family(std::move(name_of_family)) {}
ncclComm::~ncclComm() = default;

ringwood::Communicator& ncclComm::usable() const {
  if (!ready)
    ringwood::nccl::refuse_to_use(
        "the communicator is made by the ncclGroupEnd() of its group, which has not come yet");
  if (finalized)
    ringwood::nccl::refuse_to_use("the communicator was finalized: it can only be destroyed");
  return *group;
}

void ncclComm::keep_sentence(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  sentence_ = sentence;
}

std::string ncclComm::sentence() const {
  if (ready)
    if (const ringwood::Status health = group->health(); !health) return health.error().message();
  const std::lock_guard lock(mutex_);
  return sentence_;
}

ncclRedOp_t ncclComm::add_factor(const Factor& factor) {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find_if(factors_, [](const auto& one) { return !one; });
  const auto number = static_cast<int>(free - factors_.begin());
  if (free == factors_.end())
    factors_.emplace_back(factor);
  else
    *free = factor;
  return static_cast<ncclRedOp_t>(ncclNumOps + number);
}

void ncclComm::remove_factor(ncclRedOp_t op) {
  (void)factor_of(op);
  const std::lock_guard lock(mutex_);
  factors_[static_cast<size_t>(op) - ncclNumOps].reset();
}

Factor ncclComm::factor_of(ncclRedOp_t op) const {
  const std::lock_guard lock(mutex_);
  const size_t number = static_cast<size_t>(op) - ncclNumOps;
  if (op < ncclNumOps || number >= factors_.size() || !factors_[number])
    ringwood::nccl::refuse(
        fmt::format("{} is no operation of this communicator: neither one of NCCL's, nor one that "
                    "ncclRedOpCreatePreMulSum() has made and ncclRedOpDestroy() has not ended",
                    static_cast<int>(op)));
  return *factors_[number];
}
