// send, recv and any-source with tags: a small matching layer over links of its own, so that
// schedules stay free of tags and a late receive never blocks a collective.
//
// Wire, per direction of a pair: 32-byte headers, some followed by a payload.
//   eager(tag, bytes) payload      small: sent at once; kept by the receiver until it is wanted
//   announce(id, tag, bytes)       large: the data waits at the sender
//   grant(id)                      the receiver has a place for it
//   data(id) payload
// Matching: in the order of sending per (peer, tag); receives in the order they were made. A
// message whose size is not the receive's is Error(mismatch). Every field of a header is checked
// against what this side knows before it is used. The protocol is MPI's eager and rendezvous.
// Thread safety: the engine's driver only.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collectives/operation.h"
#include "transports/mesh.h"

namespace ringwood {

class PointToPoint final {
 public:
  explicit PointToPoint(Mesh& mesh);

  void add(std::shared_ptr<MessageState> message);
  bool active() const { return pending_ > 0; }
  // One pass; settled messages (in order of completion) are appended.
  Status step(bool& progressed, std::vector<std::shared_ptr<OperationState>>& finished);
  // All pending messages, given up.
  void drop(std::vector<std::shared_ptr<OperationState>>& dropped);
  // The first pending one that is late, or null.
  std::shared_ptr<MessageState> late(Clock::time_point now) const;
  // A pending message that can only come from, or go to, this peer.
  bool needs(int peer) const;

 private:
  struct Header {
    uint32_t kind = 0;
    uint32_t id = 0;
    uint64_t tag = 0;
    uint64_t bytes = 0;
    uint64_t reserved = 0;
  };
  static_assert(sizeof(Header) == 32);
  enum Kind : uint32_t { kEager = 1, kAnnounce, kGrant, kData };

  // Something that came before it was wanted.
  struct Early {
    uint64_t tag = 0;
    size_t bytes = 0;
    bool announced = false;
    uint32_t id = 0;                    // announced
    std::unique_ptr<std::byte[]> data;  // eager, complete
  };
  // One post on the link's send side and what its completion finishes (null: nothing).
  struct Outgoing {
    Header header;
    std::shared_ptr<MessageState> message;
    bool payload = false;
  };
  struct Peer {
    Link* link = nullptr;
    Completions totals;
    uint64_t posted_sends = 0, posted_receives = 0;
    std::list<Outgoing> outgoing;  // stable addresses: the link reads the headers
    std::unordered_map<uint32_t, std::shared_ptr<MessageState>>
        announced;  // ours, waiting for a grant
    std::unordered_map<uint32_t, std::shared_ptr<MessageState>> granted;  // theirs, on the way
    std::deque<Early> early;
    uint32_t next_id = 1;
    Header incoming;
    bool reading_payload = false;
    std::shared_ptr<MessageState> payload_for;  // null: for early.back()
  };

  Status start_send(Peer& peer, std::shared_ptr<MessageState> message);
  Status post(Peer& peer, const Header& header, std::shared_ptr<MessageState> payload);
  Status poll(int rank, bool& progressed, std::vector<std::shared_ptr<OperationState>>& finished);
  Status received(int rank, std::vector<std::shared_ptr<OperationState>>& finished);
  Status on_header(int rank);
  Status on_offer(int rank, const Header& header);
  Status match_early(const std::shared_ptr<MessageState>& receive,
                     std::vector<std::shared_ptr<OperationState>>& finished);
  std::shared_ptr<MessageState> take_receive(int rank, uint64_t tag);
  Status check_size(const MessageState& receive, int rank, size_t bytes) const;
  void settle(std::shared_ptr<MessageState> message, int from,
              std::vector<std::shared_ptr<OperationState>>& finished);
  bool watched(int rank) const;

  Mesh& mesh_;
  std::vector<Peer> peers_;
  std::list<std::shared_ptr<MessageState>> receives_;  // made, not matched, in order
  std::list<std::shared_ptr<MessageState>> all_;       // every pending message
  std::vector<std::shared_ptr<MessageState>> fresh_;   // added, not started
  size_t pending_ = 0;
};

}  // namespace ringwood
