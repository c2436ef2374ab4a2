// Messages of memory of devices (transports/device_copies.h): each has pinned memory that stands
// for it on the links.
//
//   send   announced at once | stream has come | copy out | its stream goes on | granted: data sent
//   recv   matched at once | data has arrived and stream has come | copy in, its stream goes on
//
// So messages match in the order of the calls, whatever their streams do. What a send's stream has
// to wait for is the copy, not the receive: the buffer may be reused then.
//
// Thread safety: the engine's driver only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/operations/operation.h"
#include "transports/device_copies.h"

namespace ringwood {

class DeviceMessages final {
 public:
  using Message = std::shared_ptr<MessageState>;
  struct Granted {
    Message message;
    uint32_t id = 0;
  };

  explicit DeviceMessages(GroupDevices& devices) : devices_(devices) {}

  // A send is to be copied out.
  void add(Message send);
  // The data of a receive has arrived in its staging.
  void received(Message receive);
  // A grant came for a send. False: its data is still to be copied out, and comes from step().
  bool may_send(const Message& send, uint32_t id);
  // Makes one iteration. Appends the sends that were granted before they were copied out, and the
  // receives that are done.
  Status step(bool& progressed, std::vector<Granted>& sends, std::vector<Message>& receives);
  // The message is done.
  void end(MessageState& message) noexcept;
  // Lets its stream go on. The links were aborted.
  void drop(MessageState& message) noexcept;
  void clear() { under_way_.clear(); }
  bool empty() const { return under_way_.empty(); }
  bool sends_to(int peer) const;
  // What is before the message in its stream is not done.
  bool waits_for_stream(const MessageState& message) const;

 private:
  struct UnderWay {
    Message message;
    std::optional<DeviceCopies::Ticket> ticket;  // of the copy, once it is begun
    std::optional<uint32_t> granted;
  };
  DeviceCopies& copies(const MessageState& message) const {
    return devices_.copies(message.on.device);
  }
  Status begin(UnderWay& item, bool& progressed);
  bool copied(const UnderWay& item) const;

  GroupDevices& devices_;
  std::vector<UnderWay> under_way_;
};

}  // namespace ringwood
