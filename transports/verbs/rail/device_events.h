// Asynchronous events of an RDMA device, read without blocking: the outages and returns of a port,
// and the end of the device.
//
// Thread safety: all functions.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "transports/verbs/rail/port.h"

namespace ringwood::verbs {

class DeviceEvents final {
 public:
  // The port outlives it.
  explicit DeviceEvents(const Port& port) noexcept;

  // Reads the events that have come.
  void read() noexcept;
  int fd() const { return port_.context()->async_fd; }

  // How often the port went down, and came up. Paths that were made before the last outage are
  // void.
  unsigned outages() const { return outages_.load(std::memory_order_acquire); }
  unsigned returns() const { return returns_.load(std::memory_order_acquire); }
  std::string why_down() const;
  // The device has failed for good.
  bool dead() const { return dead_.load(std::memory_order_acquire); }

 private:
  const Port& port_;
  std::atomic<unsigned> outages_{0}, returns_{0};
  std::atomic<bool> dead_{false};
  mutable std::mutex mutex_;
  std::string why_down_;  // guarded by mutex_
};

}  // namespace ringwood::verbs
