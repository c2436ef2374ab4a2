// The sending half of the message protocol with one peer (point_to_point.h): which messages
// leave at once, which are announced and wait for their grant, and which are delayed until the
// peer has room.
//
// Invariants:
// 1. Messages leave, or are announced, in the order of send().
// 2. Eager messages that the peer has not taken, as far as it has reported, are at most 2 x
//    kEagerRoom; announced ones at most kMaxAnnounced.
// 3. Headers and data that are posted do not move until sent() has returned them.
//
// Errors are those of the link. Thread safety: the engine's driver only.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>

#include "collectives/messages/header.h"
#include "collectives/operations/operation.h"
#include "transports/link.h"

namespace ringwood {

class MessageSender final {
 public:
  explicit MessageSender(Link* link = nullptr) : link_(link) {}

  // Sends the message, or delays it while there is no room, behind those delayed before.
  Status send(std::shared_ptr<MessageState> message);
  // Grants what the peer has announced by this number.
  Status grant(uint32_t id);
  // This rank's message for which a grant arrived; null: none is announced by this number.
  std::shared_ptr<MessageState> granted(uint32_t id);
  // Sends its data, and what was delayed behind it.
  Status send_data(uint32_t id, std::shared_ptr<MessageState> message);
  // From now on headers tell the peer that this eager message of its own was taken.
  void took(size_t bytes) { taken_ += bytes + kEagerCharge; }
  // The peer reports how much of this rank's data it has taken in all; false where that
  // is impossible.
  bool heard(uint64_t taken);
  // The oldest post has completed. Returns the message that this finishes, or null.
  std::shared_ptr<MessageState> sent();
  // Nothing is posted, and nothing waits for a grant.
  bool idle() const { return outgoing_.empty() && announced_.empty(); }
  // Forgets everything. Precondition: the link was aborted.
  void drop();

 private:
  // One post on the link and what its completion finishes (null: nothing).
  struct Outgoing {
    MessageHeader header;
    std::shared_ptr<MessageState> message;
  };

  bool eager(const MessageState& message) const;
  Status start(std::shared_ptr<MessageState> message);
  Status start_delayed();
  Status post(const MessageHeader& header, std::shared_ptr<MessageState> payload);

  Link* link_;
  std::list<Outgoing> outgoing_;  // stable addresses: the link reads the headers
  std::unordered_map<uint32_t, std::shared_ptr<MessageState>> announced_;
  std::deque<std::shared_ptr<MessageState>> delayed_;  // not announced yet
  // Eager messages, as charged: what this rank has sent, what of that the peer has taken as far as
  // known, and what this rank has taken of the peer's.
  uint64_t sent_ = 0, known_taken_ = 0, taken_ = 0;
  uint32_t next_id_ = 1;
};

}  // namespace ringwood
