// The sending half of the message protocol with one peer (point_to_point.h): which messages leave
// at once, which are announced and wait for their grant, and which are held back until the peer has
// room.
//
// Invariants:
//   1. Messages leave, or are announced, in the order of send().
//   2. Eager ones that the peer has not taken, as far as it has said, are at most 2 x kEagerRoom;
//      announced ones at most kMaxAnnounced.
//   3. Headers and data that are posted stay where they are until sent() has returned them.
// Errors: the link's. Thread safety: the engine's driver only.
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

  // Held back while there is no room for it, behind those that are.
  Status send(std::shared_ptr<MessageState> message);
  // Asks for what the peer has announced by this number.
  Status grant(uint32_t id);
  // The message of ours that a grant is for; null: none is announced by this number.
  std::shared_ptr<MessageState> granted(uint32_t id);
  // Its data, and what was held back behind it.
  Status send_data(uint32_t id, std::shared_ptr<MessageState> message);
  // From here on headers tell the peer that this eager message of its own was taken.
  void took(size_t bytes) { taken_ += bytes + kEagerCharge; }
  // What the peer has taken of ours, in all; false where that cannot be.
  bool heard(uint64_t taken);
  // The oldest post has completed: the message that is finished by that, or null.
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

  bool eager(size_t bytes) const;
  Status start(std::shared_ptr<MessageState> message);
  Status start_held();
  Status post(const MessageHeader& header, std::shared_ptr<MessageState> payload);

  Link* link_;
  std::list<Outgoing> outgoing_;  // stable addresses: the link reads the headers
  std::unordered_map<uint32_t, std::shared_ptr<MessageState>> announced_;
  std::deque<std::shared_ptr<MessageState>> held_;  // not announced yet
  // Eager messages, as charged: ours, and of those what the peer has taken as far as we know; and
  // what we have taken of the peer's.
  uint64_t sent_ = 0, known_taken_ = 0, taken_ = 0;
  uint32_t next_id_ = 1;
};

}  // namespace ringwood
