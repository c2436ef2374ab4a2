// The completion queue of one link on one rail, to which all paths of the link over the rail
// report.
//
// Not thread safe. Its queue pairs are destroyed before it.
#pragma once

#include <array>
#include <memory>

#include "transports/verbs/rail/rail.h"

namespace ringwood::verbs {

class CompletionQueue final {
 public:
  CompletionQueue(std::shared_ptr<Rail> rail, int entries)
      : rail_(std::move(rail)), queue_(rail_->channel().make_queue(entries)) {}
  ~CompletionQueue() {
    if (queue_ && !rail_->port().inherited()) rail_->channel().destroy_queue(queue_);
  }
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  ibv_cq* get() const { return queue_; }  // null: it could not be made, errno from the constructor
  // The RDMA device has failed for good: nothing more comes from it.
  bool unreadable() const { return unreadable_; }

  // Reads until the queue is empty: what came before it was armed is not announced again.
  template <class Take>
  void read(Take&& take) {
    std::array<ibv_wc, kBatch> completions;
    for (int n = unreadable_ ? 0 : kBatch; n == kBatch;) {
      n = ibv_poll_cq(queue_, kBatch, completions.data());
      for (int i = 0; i < n; ++i) take(completions[i]);
      unreadable_ = n < 0;
    }
  }

 private:
  static constexpr int kBatch = 16;

  const std::shared_ptr<Rail> rail_;
  ibv_cq* const queue_;
  bool unreadable_ = false;
};

}  // namespace ringwood::verbs
