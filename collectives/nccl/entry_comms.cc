// The entry points that make, ask and end communicators.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "collectives/nccl/memory.h"
#include "collectives/nccl/thread_group.h"
#include "collectives/nccl/unique_id.h"
#include "transports/base/options.h"

namespace ringwood::nccl {
namespace {

// The first fields of a configuration, which every version has.
struct ConfigHead {
  size_t size;
  unsigned magic, version;
};

// Its name for the communicator, or "". What is behind its size is not read.
std::string name_in(const ncclConfig_t* config) {
  if (!config) return "";
  if (config->size < sizeof(ConfigHead) || config->magic != NCCL_API_MAGIC)
    refuse("the configuration was not set by NCCL_CONFIG_INITIALIZER");
  const bool has_name = config->size >= offsetof(ncclConfig_t, commName) + sizeof(char*);
  return has_name && config->commName ? config->commName : "";
}

// Enters the communicator that the program's handle gets, and makes it now or with its group.
void add(ncclComm_t* handle, CommPtr comm, std::function<bool(ncclComm&)> make) {
  enter(comm);
  *handle = comm.get();
  ThreadGroup::of_this_thread().add({std::move(comm), handle, std::move(make)});
}

// As guarded(), and an error is also that of the group.
template <class Body>
ncclResult_t grouped(ncclComm_t handle, Body body) {
  try {
    body();
    return ncclSuccess;
  } catch (...) {
    const Error error = caught_error();
    ThreadGroup::of_this_thread().fail(error);
    return tell(error, handle ? find_or_null(handle).get() : nullptr);
  }
}

void check_ranks(const char* what, int rank, int ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    refuse(fmt::format("{}: rank {} of {} ranks: a rank is 0 to ranks - 1", what, rank, ranks));
}

void init(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
          const ncclConfig_t* config) {
  if (!handle) refuse("ncclCommInitRank: the place for the communicator is null");
  *handle = nullptr;
  check_ranks("ncclCommInitRank", rank, ranks);
  const std::string session = session_of(id);
  std::string name = name_in(config);
  if (name.empty()) name = "nccl-" + session.substr(0, 8);
  auto comm = std::make_shared<ncclComm>(name, session);
  comm->rank = rank;
  comm->size = ranks;
  comm->ordinal = current_gpu().value_or(0);
  add(handle, std::move(comm), [id](ncclComm& made) {
    const Options options = Options::from_environment();
    made.store = store_of(id, made.rank, options);
    made.group = Communicator::create(made.store, made.rank, made.size, options, made.name);
    forget(id);
    return true;
  });
}

void init_all(ncclComm_t* handles, int ranks, const int* ordinals) {
  if (!handles) refuse("ncclCommInitAll: the place for the communicators is null");
  check_ranks("ncclCommInitAll", 0, ranks);
  static std::atomic<int> times{0};
  const std::string name = fmt::format("nccl-all-{}", times++);
  ThreadGroup& group = ThreadGroup::of_this_thread();
  const std::shared_ptr<Store> store = memory_store();
  group.start();
  for (int rank = 0; rank < ranks; ++rank) {
    auto comm = std::make_shared<ncclComm>(name, name);
    comm->rank = rank;
    comm->size = ranks;
    comm->ordinal = ordinals ? ordinals[rank] : rank;
    comm->store = store;
    add(&handles[rank], std::move(comm), [](ncclComm& made) {
      made.group = Communicator::create(made.store, made.rank, made.size,
                                        Options::from_environment(), made.name);
      return true;
    });
  }
  group.end();
}

struct Choice {
  int32_t color, key;
};

// The ranks that chose the color of `own`, in the order of their keys.
std::vector<int> members_of(Communicator& group, Choice own) {
  std::vector<Choice> all(static_cast<size_t>(group.size()));
  const Status done = group.all_gather(&own, all.data(), 2, DataType::int32)->wait();
  if (!done) throw Error(done.error());
  std::vector<int> members;
  for (int rank = 0; rank < group.size(); ++rank)
    if (all[static_cast<size_t>(rank)].color == own.color) members.push_back(rank);
  std::ranges::stable_sort(members, {},
                           [&](int rank) { return all[static_cast<size_t>(rank)].key; });
  return members;
}

// Of `members`, ranks of the parent, by new rank.
void make_child(ncclComm& child, const ncclComm& parent, const std::vector<int>& members) {
  child.rank = static_cast<int>(std::ranges::find(members, parent.rank) - members.begin());
  child.size = static_cast<int>(members.size());
  child.ordinal = parent.ordinal;
  child.store = prefix_store(parent.store, child.family + "/");
  child.group = Communicator::create(child.store, child.rank, child.size,
                                     Options::from_environment(), child.name);
}

void split(const CommPtr& parent, Choice own, ncclComm_t* handle, const ncclConfig_t* config) {
  if (!handle) refuse("ncclCommSplit: the place for the communicator is null");
  *handle = nullptr;
  (void)parent->usable();
  if (own.color < 0 && own.color != NCCL_SPLIT_NOCOLOR)
    refuse(fmt::format("ncclCommSplit: the color {} is negative", own.color));
  const std::string place = fmt::format("{}.{}", parent->children++, own.color);
  std::string name = name_in(config);
  if (name.empty()) name = parent->name + "-" + place;
  add(handle, std::make_shared<ncclComm>(name, parent->family + "." + place),
      [parent, own](ncclComm& child) {
        const std::vector<int> members = members_of(*parent->group, own);
        if (own.color == NCCL_SPLIT_NOCOLOR) return false;
        make_child(child, *parent, members);
        return true;
      });
}

void shrink(const CommPtr& parent, const int* excluded, int count, ncclComm_t* handle,
            const ncclConfig_t* config, int flags) {
  if (!handle || (count > 0 && !excluded)) refuse("ncclCommShrink: a pointer is null");
  *handle = nullptr;
  (void)parent->usable();
  const std::set<int> without(excluded, excluded + std::max(count, 0));
  std::vector<int> members;
  for (int rank = 0; rank < parent->size; ++rank)
    if (!without.contains(rank)) members.push_back(rank);
  if (without.contains(parent->rank))
    refuse("ncclCommShrink: called by a rank that is to be excluded");
  if (without.size() + members.size() != static_cast<size_t>(parent->size))
    refuse("ncclCommShrink: a rank to be excluded is none of the communicator");
  if (flags & NCCL_SHRINK_ABORT)
    parent->group->abort("ncclCommShrink() makes a group without some of its ranks");
  const std::string place = fmt::format("{}.shrunk", parent->children++);
  std::string name = name_in(config);
  if (name.empty()) name = parent->name + "-" + place;
  add(handle, std::make_shared<ncclComm>(name, parent->family + "." + place),
      [parent, members](ncclComm& child) {
        make_child(child, *parent, members);
        return true;
      });
}

}  // namespace
}  // namespace ringwood::nccl

using namespace ringwood::nccl;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return guarded([&] {
    if (!uniqueId) refuse("ncclGetUniqueId: the place for the id is null");
    *uniqueId = make_id(ringwood::Options::from_environment());
  });
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return grouped(nullptr, [&] { init(comm, nranks, commId, rank, nullptr); });
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return grouped(nullptr, [&] { init(comm, nranks, commId, rank, config); });
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config) {
  return grouped(nullptr, [&] {
    if (nId < 1 || !commIds) refuse("ncclCommInitRankScalable: there is no id");
    init(newcomm, nranks, commIds[0], myrank, config);
  });
}
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return grouped(nullptr, [&] { init_all(comm, ndev, devlist); });
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return grouped(comm, [&] { split(find(comm), {color, key}, newcomm, config); });
}
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return grouped(comm, [&] {
    shrink(find(comm), excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded([&] {
    const CommPtr found = find(comm);
    (void)found->usable();
    found->finalized = true;
  });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded([&] {
    if (comm) retire(find(comm));
  });
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded([&] {
    if (!comm) return;
    const CommPtr found = find(comm);
    if (found->ready) found->group->abort("ncclCommAbort() was called");
    retire(found);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return guarded([&] {
    const CommPtr found = find(comm);
    if (!asyncError) refuse("ncclCommGetAsyncError: the place for the result is null");
    *asyncError = ncclInProgress;
    if (!found->ready) return;
    const ringwood::Status health = found->group->health();
    *asyncError = health ? ncclSuccess : result_of(health.error());
  });
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return guarded([&] {
    const CommPtr found = find(comm);
    if (!count) refuse("ncclCommCount: the place for the number is null");
    *count = found->size;
  });
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return guarded([&] {
    const CommPtr found = find(comm);
    if (!device) refuse("ncclCommCuDevice: the place for the number is null");
    *device = found->ordinal;
  });
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guarded([&] {
    const CommPtr found = find(comm);
    if (!rank) refuse("ncclCommUserRank: the place for the number is null");
    *rank = found->rank;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t, void** handle) {
  return guarded([&] {
    (void)find(comm);
    if (!handle) refuse("ncclCommRegister: the place for the handle is null");
    *handle = buff;
  });
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return guarded([&] { (void)find(comm); });
}

}  // extern "C"

RINGWOOD_NCCL_TWIN(ncclGetUniqueId);
RINGWOOD_NCCL_TWIN(ncclCommInitRank);
RINGWOOD_NCCL_TWIN(ncclCommInitRankConfig);
RINGWOOD_NCCL_TWIN(ncclCommInitRankScalable);
RINGWOOD_NCCL_TWIN(ncclCommInitAll);
RINGWOOD_NCCL_TWIN(ncclCommSplit);
RINGWOOD_NCCL_TWIN(ncclCommShrink);
RINGWOOD_NCCL_TWIN(ncclCommFinalize);
RINGWOOD_NCCL_TWIN(ncclCommDestroy);
RINGWOOD_NCCL_TWIN(ncclCommAbort);
RINGWOOD_NCCL_TWIN(ncclCommGetAsyncError);
RINGWOOD_NCCL_TWIN(ncclCommCount);
RINGWOOD_NCCL_TWIN(ncclCommCuDevice);
RINGWOOD_NCCL_TWIN(ncclCommUserRank);
RINGWOOD_NCCL_TWIN(ncclCommRegister);
RINGWOOD_NCCL_TWIN(ncclCommDeregister);
