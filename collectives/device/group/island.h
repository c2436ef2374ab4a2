// The ranks of a group whose GPUs reach each other's memory: every rank has an arena, and maps
// those of all others.
//
// Making one is collective. Descriptors travel over abstract Unix sockets, facts by the group's own
// exchange; every rank then writes a pattern into each peer's arena and finds those of its peers in
// its own. What fails at one rank fails on all, and names it. Several ranks may be of one process,
// and of one device.
//
// Teardown: unmapping what a peer's kernel still uses costs its context. close() is collective and
// says whether all have ended their kernels; an island that was not closed gives its mappings up to
// the end of the process.
//
// Thread safety: all const functions. Errors: thrown. The Device must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "transports/base/clock.h"
#include "transports/base/result.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/memory.h"

namespace ringwood::device {

// All-gather of equal sizes among the ranks of the group, in rank order. Throws the group's error.
using GatherBytes = std::function<std::vector<std::byte>(std::span<const std::byte>)>;

// By the group itself, which must outlive it.
GatherBytes gather_by(Communicator& group);

// What `make` returns, if it throws on no rank; else all ranks throw the first rank's error.
template <class Make>
auto made_by_all(const GatherBytes& gather, Make make);

class Island final {
 public:
  // `bytes`: of each rank's arena, the same on all ranks. `zeroed`: from its beginning.
  Island(const cuda::Device& device, size_t bytes, size_t zeroed, int rank, int n,
         const GatherBytes& gather, Deadline deadline);
  Island(const Island&) = delete;
  Island& operator=(const Island&) = delete;
  ~Island();

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(bases_.size()); }
  size_t bytes() const { return bytes_; }
  // As this rank maps it.
  cuda::CUdeviceptr arena(int rank) const { return bases_[static_cast<size_t>(rank)]; }
  const cuda::Uuid& device_of(int rank) const { return uuids_[static_cast<size_t>(rank)]; }

  // No kernel of this rank uses the arenas any more. After it the mappings end with the object.
  void close(const GatherBytes& gather);

 private:
  struct Facts;
  void exchange(const GatherBytes& gather, Deadline deadline);
  void take_descriptors(const std::vector<Facts>& all, int shared, const OwnedFd& listener,
                        std::vector<OwnedFd>& fds, Deadline deadline);
  void probe(const GatherBytes& gather);

  const cuda::Device& device_;
  const int rank_;
  const size_t bytes_;
  std::unique_ptr<cuda::Stream> stream_;  // for what set-up copies
  std::unique_ptr<cuda::DeviceArena> own_;
  std::vector<std::unique_ptr<cuda::PeerArena>> peers_;  // by rank; own: null
  std::vector<cuda::CUdeviceptr> bases_;
  std::vector<cuda::Uuid> uuids_;
  bool closed_ = false;
};

// Collective: throws where a rank's `flaw` is not empty.
void agree_on(const GatherBytes& gather, const std::string& flaw);

template <class Make>
auto made_by_all(const GatherBytes& gather, Make make) {
  decltype(make()) made{};
  std::string flaw;
  try {
    made = make();
  } catch (...) {
    flaw = caught_error().cause;
  }
  agree_on(gather, flaw);
  return made;
}

}  // namespace ringwood::device
