// send, recv and receives from any source, with tags: a small matching layer over links of its own,
// so that schedules need no tags and a late receive never blocks a collective.
//
// Wire format, per direction of a pair: 32-byte headers, some followed by a payload.
//   eager(tag, bytes) payload      small: sent at once; kept by the receiver until it is matched
//   announce(id, tag, bytes)       large: the data waits at the sender
//   grant(id)                      the receiver has a place for it
//   data(id) payload
//
// Matching is in the order of sending per (peer, tag), and receives match in the order in which
// they were made. A message whose size is not that of its receive is Error(mismatch). Every field
// of a header is checked against the state of this side before it is used. The protocol is MPI's
// eager and rendezvous.
//
// The eager limit: a send of up to kEagerBytes finishes without its receive as long as the eager
// messages that this rank has sent to that peer, and that no receive there has taken, are at most
// kEagerRoom (each message counts as its bytes + kEagerCharge). So ranks may send to each other
// first and receive afterwards, up to that limit. The peer receives and keeps such messages
// whenever it waits for anything, also in a collective. Beyond the limit a send waits for its
// receive, as larger ones do, and those of a device: it is announced, and its data remains with the
// sender.
// - A receive finds every message that it may match among the kept and the announced ones, whatever
//   their order: an unmatched message delays no other. A peer has at most kMaxAnnounced announced
//   messages; a sender with more delays the rest, in order, where no receive finds them.
// - So a rank keeps at most 2 x kEagerRoom of messages of each peer. The second half is for
//   messages that are in flight while the sender, by announcing a message that it could
//   send eagerly, asks what has been taken. Every header of the other direction carries the
//   reply (`taken`).
//
// Thread safety: the engine's driver only.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collectives/messages/device_messages.h"
#include "collectives/messages/early.h"
#include "collectives/messages/header.h"
#include "collectives/messages/sender.h"
#include "collectives/operations/operation.h"
#include "transports/mesh.h"

namespace ringwood {

class PointToPoint final {
 public:
  PointToPoint(Mesh& mesh, GroupDevices& devices);

  void add(std::shared_ptr<MessageState> message);
  bool active() const { return pending_ > 0; }
  // Makes one iteration and appends finished messages in order of completion. `listening` must be
  // true for a thread that waits for long: messages from other peers are then received, too;
  // otherwise ranks could wait for each other in a cycle.
  Status step(bool listening, bool& progressed,
              std::vector<std::shared_ptr<OperationState>>& finished);
  // Gives up all pending messages. Precondition: the links were aborted.
  void drop(std::vector<std::shared_ptr<OperationState>>& dropped);
  // The first pending message past its deadline, or null.
  std::shared_ptr<MessageState> late(Clock::time_point now) const;
  // A pending message that can only come from, or go to, this peer.
  bool needs(int peer) const;
  // The first pending message to or from this peer, for errors; null: it is only a reply to one of
  // the peer's that is pending.
  const MessageState* with(int peer) const;
  // The first pending receive that any rank may serve, or null.
  const MessageState* from_any() const;
  // The pending messages of memory of devices.
  std::vector<const MessageState*> on_devices() const;
  // The link to this peer has ended, and all that came over it is here. Known while a receive from
  // any rank is pending.
  bool gone(int peer) const { return peers_[peer].gone; }

 private:
  struct Peer {
    Link* link = nullptr;
    MessageSender sender;
    EarlyMessages early;
    Completions totals;
    uint64_t posted_receives = 0;
    // Announced by the peer and granted; the data is on its way.
    std::unordered_map<uint32_t, std::shared_ptr<MessageState>> granted;
    MessageHeader incoming;
    bool reading_payload = false;
    bool gone = false;
    std::shared_ptr<MessageState> payload_for;  // null: for the last early one
  };

  Status poll(int rank, bool listening, bool& progressed,
              std::vector<std::shared_ptr<OperationState>>& finished);
  Status received(int rank, std::vector<std::shared_ptr<OperationState>>& finished);
  Status on_header(int rank);
  Status on_eager(int rank, const MessageHeader& header);
  Status on_announce(int rank, const MessageHeader& header);
  Status on_data(int rank, const MessageHeader& header);
  Status read_into(Peer& peer, void* data, size_t bytes);
  Status grant(int rank, uint32_t id, const std::shared_ptr<MessageState>& receive);
  Status match_early(const std::shared_ptr<MessageState>& receive,
                     std::vector<std::shared_ptr<OperationState>>& finished);
  std::shared_ptr<MessageState> take_receive(int rank, uint64_t tag);
  Status check_size(const MessageState& receive, int rank, size_t bytes) const;
  // The data of a receive is here.
  void arrived(std::shared_ptr<MessageState> receive, int from,
               std::vector<std::shared_ptr<OperationState>>& finished);
  void finish(std::shared_ptr<MessageState> message,
              std::vector<std::shared_ptr<OperationState>>& finished);
  Status serve_devices(bool& progressed, std::vector<std::shared_ptr<OperationState>>& finished);
  bool watched(int rank) const;

  Mesh& mesh_;
  DeviceMessages devices_;
  std::vector<Peer> peers_;
  // not matched, in the order in which they were made
  std::list<std::shared_ptr<MessageState>> receives_;
  std::list<std::shared_ptr<MessageState>> all_;      // every pending message
  std::vector<std::shared_ptr<MessageState>> fresh_;  // added, but not started
  size_t pending_ = 0;
};

}  // namespace ringwood
