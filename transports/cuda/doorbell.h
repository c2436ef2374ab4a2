// Rings a file descriptor from a stream: a function of the host, which CUDA runs in a thread of its
// own when what was before it in the stream is done.
//
// Thread safety: all functions.
#pragma once

#include <memory>

#include "transports/cuda/device.h"

namespace ringwood::cuda {

class Doorbell {
 public:
  // `fd`: an eventfd, of which a copy is kept; -1: rings nothing.
  explicit Doorbell(int fd);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // Once what is now in the stream is done. Precondition: the device's context is current.
  Status ring_behind(const Device& device, CUstream stream) const;
  // A stream may still ring it.
  void keep_for_ever() noexcept { [[maybe_unused]] const int* const kept = fd_.release(); }

 private:
  std::unique_ptr<int> fd_;  // read by functions of the host
};

}  // namespace ringwood::cuda
