#include "collectives/messages/device_messages.h"

#include <algorithm>
#include <utility>

namespace ringwood {

void DeviceMessages::add(Message send) { under_way_.push_back({std::move(send), {}, {}}); }

void DeviceMessages::received(Message receive) {
  under_way_.push_back({std::move(receive), {}, {}});
}

bool DeviceMessages::may_send(const Message& send, uint32_t id) {
  const auto it = std::ranges::find(under_way_, send, &UnderWay::message);
  if (it == under_way_.end()) return true;
  it->granted = id;
  return false;
}

// The stream of a receive goes on behind its copy; that of a send, when it is done, as the end is
// none of the copies out.
Status DeviceMessages::begin(UnderWay& item, bool& progressed) {
  MessageState& m = *item.message;
  DeviceCopies& device = copies(m);
  if (item.ticket || !device.has_come(*m.entered)) return {};
  progressed = true;
  if (m.bytes == 0) {
    item.ticket = 0;
  } else {
    auto ticket = m.sending ? device.copy_out(m.staging, m.data, m.bytes)
                            : device.copy_in(m.data, m.staging, m.bytes);
    if (!ticket) return std::move(ticket.error());
    item.ticket = *ticket;
  }
  if (Status s = device.ring_when_done(); !s) return s;
  if (m.sending) return {};
  return device.end(*std::exchange(m.entered, std::nullopt));
}

bool DeviceMessages::copied(const UnderWay& item) const {
  if (!item.ticket) return false;
  const MessageState& m = *item.message;
  if (m.bytes == 0) return true;
  return m.sending ? copies(m).out_done(*item.ticket) : copies(m).in_done(*item.ticket);
}

Status DeviceMessages::step(bool& progressed, std::vector<Granted>& sends,
                            std::vector<Message>& receives) {
  for (size_t i = 0; i < under_way_.size();) {
    UnderWay& item = under_way_[i];
    MessageState& m = *item.message;
    Status s = begin(item, progressed);
    const bool done = s && copied(item);
    if (done && m.sending) s = copies(m).end(*std::exchange(m.entered, std::nullopt));
    if (!s) {
      m.name_in(s.error());
      return s;
    }
    if (!done) {
      ++i;
      continue;
    }
    progressed = true;
    if (!m.sending)
      receives.push_back(std::move(item.message));
    else if (item.granted)
      sends.push_back({std::move(item.message), *item.granted});
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return {};
}

void DeviceMessages::end(MessageState& message) noexcept {
  devices_.give_back(std::exchange(message.staging, nullptr));
}

// A copy that was begun may still use the staging, which is not used again.
void DeviceMessages::drop(MessageState& message) noexcept {
  if (const auto entered = std::exchange(message.entered, std::nullopt))
    copies(message).abandon(*entered);
  message.staging = nullptr;
}

bool DeviceMessages::sends_to(int peer) const {
  return std::ranges::any_of(under_way_, [&](const UnderWay& item) {
    return item.message->sending && item.message->peer == peer;
  });
}

bool DeviceMessages::waits_for_stream(const MessageState& message) const {
  return message.entered && !copies(message).has_come(*message.entered);
}

}  // namespace ringwood
