// Reports that the completion queues of a rail are no longer empty, once after each arm().
//
// Thread safety: all functions after open().
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "transports/verbs/rail/port.h"

namespace ringwood::verbs {

class CompletionChannel final {
 public:
  // The port outlives it.
  explicit CompletionChannel(const Port& port) : port_(port) {}
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  bool open(std::string& why);  // false with `why`
  int fd() const { return channel_->fd; }

  ibv_cq* make_queue(int entries);  // null with errno
  void destroy_queue(ibv_cq* queue);
  // From now on the next completion of any queue makes fd() readable.
  void arm() noexcept;

 private:
  void drain() noexcept;

  const Port& port_;
  ibv_comp_channel* channel_ = nullptr;
  std::mutex mutex_;
  std::vector<ibv_cq*> queues_;  // guarded by mutex_
};

}  // namespace ringwood::verbs
