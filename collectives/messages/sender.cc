#include "collectives/messages/sender.h"

namespace ringwood {

Status MessageSender::send(std::shared_ptr<MessageState> message) {
  delayed_.push_back(std::move(message));
  return start_delayed();
}

// Announces a message that could be sent eagerly when half of the room is used: its grant reports
// what is free again. That of a device has no data yet.
bool MessageSender::eager(const MessageState& message) const {
  if (message.bytes > kEagerBytes || message.on_device()) return false;
  const uint64_t used = sent_ - known_taken_ + message.bytes + kEagerCharge;
  return used <= (announced_.empty() ? kEagerRoom : 2 * kEagerRoom);
}

Status MessageSender::start(std::shared_ptr<MessageState> message) {
  MessageHeader header;
  header.tag = message->tag;
  header.bytes = message->bytes;
  if (eager(*message)) {
    header.kind = MessageHeader::kEager;
    sent_ += message->bytes + kEagerCharge;
    return post(header, std::move(message));
  }
  header.kind = MessageHeader::kAnnounce;
  header.id = next_id_++;
  announced_[header.id] = std::move(message);
  return post(header, nullptr);
}

Status MessageSender::start_delayed() {
  while (!delayed_.empty() && (eager(*delayed_.front()) || announced_.size() < kMaxAnnounced)) {
    auto message = std::move(delayed_.front());
    delayed_.pop_front();
    if (Status s = start(std::move(message)); !s) return s;
  }
  return {};
}

Status MessageSender::grant(uint32_t id) {
  MessageHeader header;
  header.kind = MessageHeader::kGrant;
  header.id = id;
  return post(header, nullptr);
}

std::shared_ptr<MessageState> MessageSender::granted(uint32_t id) {
  const auto it = announced_.find(id);
  if (it == announced_.end()) return nullptr;
  auto message = std::move(it->second);
  announced_.erase(it);
  return message;
}

Status MessageSender::send_data(uint32_t id, std::shared_ptr<MessageState> message) {
  MessageHeader header;
  header.kind = MessageHeader::kData;
  header.id = id;
  if (Status s = post(header, std::move(message)); !s) return s;
  return start_delayed();
}

Status MessageSender::post(const MessageHeader& header, std::shared_ptr<MessageState> payload) {
  const bool has_payload = payload && payload->bytes > 0;
  outgoing_.push_back({header, has_payload ? nullptr : payload});
  outgoing_.back().header.taken = taken_;
  if (Status s = link_->post_send(&outgoing_.back().header, sizeof(MessageHeader)); !s) return s;
  if (!has_payload) return {};
  const void* data = payload->on_host();
  const size_t bytes = payload->bytes;
  outgoing_.push_back({{}, std::move(payload)});
  return link_->post_send(data, bytes);
}

bool MessageSender::heard(uint64_t taken) {
  if (taken < known_taken_ || taken > sent_) return false;
  known_taken_ = taken;
  return true;
}

std::shared_ptr<MessageState> MessageSender::sent() {
  auto message = std::move(outgoing_.front().message);
  outgoing_.pop_front();
  return message;
}

void MessageSender::drop() {
  announced_.clear();
  delayed_.clear();
  outgoing_.clear();
}

}  // namespace ringwood
