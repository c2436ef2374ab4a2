// One reliable queue pair of a port: made, connected to its peer's, stopped. It keeps no account of
// what is in its queues (Path does), because some RDMA devices hide that a queue is overrun.
//
// Not thread safe, except stop(), which another thread may call while no thread makes or destroys
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transports/base/clock.h"
#include "transports/verbs/path/path_end.h"
#include "transports/verbs/rail/rail.h"

namespace ringwood::verbs {

// Pieces that may be on their way per link, and so the receives that must be posted, with a margin
// for credits.
inline constexpr int kMaxPieces = 256, kReceives = kMaxPieces + 64, kSends = kMaxPieces + 64;
// Marks the number of a work request as a receive.
inline constexpr uint64_t kIsReceive = uint64_t{1} << 63;

struct PathSetting {
  int mtu = 1024;  // bytes
  int traffic_class = 0, service_level = 0, timeout = 20, retries = 7, partition = 0;
};

// A write to the peer's memory, with an immediate that the peer receives.
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

  // Makes the queue pair with kReceives receives posted. False with `why`.
  bool make(ibv_cq* queue, const PathSetting& setting, std::string& why);
  PathEnd end() const { return {pair_->qp_num, first_packet_, ece_}; }
  // To be called before connect(): applies the peer's ECE options as far as the device can; none if
  // it has none.
  void agree(const std::optional<Ece>& theirs);
  // The kernel asks the network for the peer's address, and the answer may be late: this waits and
  // asks again until `patience` has passed.
  bool connect(const PathEnd& peer, const RailAddress& rail, const PathSetting& setting,
               Deadline patience, std::string& why);

  const Rail& rail() const { return *rail_; }
  uint32_t number() const { return pair_ ? pair_->qp_num : 0; }  // 0: there is none

  // False: the device refused (errno).
  bool write(const Write& write, uint64_t number, bool signalled);
  bool receive(int count);
  // It sends and receives nothing any more, and what was posted comes back.
  void stop() noexcept;
  // Returns 0, or errno if the device does not release it.
  int destroy();

 private:
  int modify(ibv_qp_attr& attributes, int which);

  const std::shared_ptr<Rail> rail_;
  ibv_qp* pair_ = nullptr;
  std::optional<Ece> ece_;
  uint32_t first_packet_ = 0, inline_bytes_ = 0;
};

}  // namespace ringwood::verbs
