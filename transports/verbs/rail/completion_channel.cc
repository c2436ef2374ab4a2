#include "transports/verbs/rail/completion_channel.h"

#include <fmt/format.h>

#include <algorithm>

#include "transports/base/error.h"

namespace ringwood::verbs {

CompletionChannel::~CompletionChannel() {
  if (!channel_ || port_.inherited()) return;
  forget_on_fork(channel_->fd);
  port_.library().destroy_comp_channel(channel_);
}

bool CompletionChannel::open(std::string& why) {
  channel_ = port_.library().create_comp_channel(port_.context());
  if (!channel_) {
    why = fmt::format("{}: {}", port_.address().name, system_message("ibv_create_comp_channel"));
    return false;
  }
  make_nonblocking(channel_->fd);
  close_on_fork(channel_->fd);
  return true;
}

ibv_cq* CompletionChannel::make_queue(int entries) {
  ibv_cq* queue = port_.library().create_cq(port_.context(), entries, nullptr, channel_, 0);
  if (!queue) return nullptr;
  std::lock_guard lock(mutex_);
  queues_.push_back(queue);
  return queue;
}

void CompletionChannel::destroy_queue(ibv_cq* queue) {
  {
    std::lock_guard lock(mutex_);
    queues_.erase(std::find(queues_.begin(), queues_.end(), queue));
    drain();  // or the library would wait for its events to be read
  }
  port_.library().destroy_cq(queue);
}

void CompletionChannel::drain() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (port_.library().get_cq_event(channel_, &queue, &context) == 0)
    port_.library().ack_cq_events(queue, 1);
}

void CompletionChannel::arm() noexcept {
  std::lock_guard lock(mutex_);
  drain();
  for (ibv_cq* queue : queues_) ibv_req_notify_cq(queue, 0);
}

}  // namespace ringwood::verbs
