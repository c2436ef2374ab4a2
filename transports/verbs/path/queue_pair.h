// One reliable queue pair of a port: made, led to its peer's, stopped. It keeps no account of what
// is in its queues (Path does): some devices hide that a queue is overrun.
//
// Not thread safe, except stop(), which another thread may call while nobody makes or destroys it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transports/base/clock.h"
#include "transports/verbs/path/path_end.h"
#include "transports/verbs/rail/rail.h"

namespace ringwood::verbs {

// Data that may be on its way per link, and so what a receiver has to be ready for, and a margin
// for credits.
inline constexpr int kMaxPieces = 256, kReceives = kMaxPieces + 64, kSends = kMaxPieces + 64;
// In the number of a work request that is a receive.
inline constexpr uint64_t kIsReceive = uint64_t{1} << 63;

struct PathSetting {
  int mtu = 1024;  // bytes
  int traffic_class = 0, service_level = 0, timeout = 20, retries = 7, partition = 0;
};

// To the peer's memory, with an immediate that it is told.
struct Write {
  const std::byte* from = nullptr;
  uint32_t bytes = 0;  // 0: only the immediate
  uint64_t to = 0;
  uint32_t key = 0, immediate = 0;
  uint32_t own_key = 0;  // of the memory at `from`
  bool signalled = false;
};

class QueuePair final {
 public:
  explicit QueuePair(std::shared_ptr<Rail> rail) : rail_(std::move(rail)) {}
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // With kReceives receives. False with `why`.
  bool make(ibv_cq* queue, const PathSetting& setting, std::string& why);
  PathEnd end() const { return {pair_->qp_num, first_packet_, ece_}; }
  // Before connect(): takes over what the peer can do, as far as we can. With nothing, nothing.
  void agree(const std::optional<Ece>& theirs);
  // The kernel asks the network for the peer's address, and the answer may be late: until
  // `patience` has passed it is asked again, and this waits.
  bool connect(const PathEnd& peer, const RailAddress& rail, const PathSetting& setting,
               Deadline patience, std::string& why);

  const Rail& rail() const { return *rail_; }
  uint32_t number() const { return pair_ ? pair_->qp_num : 0; }  // 0: there is none

  // False: the device refused (errno).
  bool write(const Write& write, uint64_t number, bool signalled);
  bool receive(int count);
  // It sends and takes nothing any more, and what was posted comes back.
  void stop() noexcept;
  // 0, or errno: the device holds on to it.
  int destroy();

 private:
  int modify(ibv_qp_attr& attributes, int which);

  const std::shared_ptr<Rail> rail_;
  ibv_qp* pair_ = nullptr;
  std::optional<Ece> ece_;
  uint32_t first_packet_ = 0, inline_bytes_ = 0;
};

}  // namespace ringwood::verbs
