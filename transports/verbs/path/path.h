// One queue pair of a link, with its own account of what is in its queues: some devices hide that a
// queue is overrun.
//
// Not thread safe, except stop(). Life: made, connected, then alive until close(); closing until
// every receive that was posted has come back, which shows that the peer can write no more;
// closed. A device that has failed may give nothing back: then the queue pair is destroyed, which
// shows the same. From connect() until use() it is being proven: its user writes nothing but a
// probe.
#pragma once

#include <memory>
#include <string>

#include "transports/link_parts.h"
#include "transports/verbs/library/ece.h"
#include "transports/verbs/path/explain.h"
#include "transports/verbs/rail/rail.h"

namespace ringwood::verbs {

// Data that may be on its way per link, and so what a receiver has to be ready for, and a margin
// for credits.
inline constexpr int kMostPieces = 256, kReceives = kMostPieces + 64, kSends = kMostPieces + 64;
inline constexpr uint64_t kIsReceive = uint64_t{1} << 63;

// What a side needs to know of the other's end.
struct PathEnd {
  uint32_t number = 0, first_packet = 0;
  std::optional<Ece> ece = std::nullopt;
};

struct PathSetting {
  int mtu = 1024;  // bytes
  int traffic_class = 0, service_level = 0, timeout = 20, retries = 7, partition = 0;
};

class Path final {
 public:
  enum class State { made, proving, alive, closing, closed };
  explicit Path(std::shared_ptr<Rail> rail) : rail_(std::move(rail)) {}
  ~Path();
  Path(Path&& other) noexcept = delete;

  bool make(ibv_cq* queue, const PathSetting& setting, std::string& why);
  PathEnd end() const { return {pair_->qp_num, first_packet_, ece_}; }
  // Before connect(): takes over what the peer can do, as far as we can. With nothing, nothing.
  void agree(const std::optional<Ece>& theirs);
  // The kernel asks the network for the peer's address, and the answer may be late: until
  // `patience` has passed it is asked again, and this waits.
  bool connect(const PathEnd& peer, const RailOffer& rail, const PathSetting& setting,
               Deadline patience, std::string& why);
  void use() { state_ = State::alive; }

  State state() const { return state_; }
  const Rail& rail() const { return *rail_; }
  uint32_t number() const { return pair_ ? pair_->qp_num : 0; }
  bool connected() const { return state_ == State::proving || state_ == State::alive; }
  // Its rail was down since it was made.
  bool interrupted() const { return outages_ != rail_->events().outages(); }
  bool can_send() const { return state_ == State::alive && posted_ - completed_ < kSends; }
  size_t bytes_on_their_way() const { return bytes_; }
  bool quiet() const { return posted_ == completed_; }
  bool carried() const { return completed_ > 0; }

  struct Write {
    const std::byte* from = nullptr;
    uint32_t bytes = 0;  // 0: only the immediate
    uint64_t to = 0;
    uint32_t key = 0, immediate = 0;
    uint32_t own_key = 0;  // of the memory at `from`
    bool signalled = false;
  };
  // Precondition: can_send(), or a probe. Returns its number, or 0 when the device refused (errno).
  uint64_t write(const Write& write);
  bool finished(uint64_t number) const { return completed_ >= number; }
  void completed(uint64_t number);
  void received() { --receives_, ++owed_; }
  // Gives back the receives that were used, a few at a time unless `all`.
  bool renew_receives(bool all);

  void close();
  // From any thread, while nobody makes or destroys the queue pair: it sends and takes nothing any
  // more.
  void stop() noexcept;
  // closing -> closed when nothing can arrive any more.
  bool settle();
  bool overdue() const { return state_ == State::closing && patience_.passed(); }
  // overdue -> closed, by the end of the queue pair; not while another thread may stop() it. False
  // when the device holds on to it (errno).
  bool destroy();

 private:
  struct Posted {
    uint64_t number;
    size_t bytes;
  };
  bool post_receives(int count);

  const std::shared_ptr<Rail> rail_;
  ibv_qp* pair_ = nullptr;
  State state_ = State::made;
  std::optional<Ece> ece_;
  uint32_t first_packet_ = 0, inline_bytes_ = 0;
  uint64_t posted_ = 0, completed_ = 0, signalled_ = 0;
  unsigned outages_ = 0;
  int receives_ = 0, owed_ = 0;
  size_t bytes_ = 0;
  Fifo<Posted> large_;  // whose bytes count
  Deadline patience_ = Deadline::never();
};

}  // namespace ringwood::verbs
