#include "transports/cuda/doorbell.h"

#include <fcntl.h>
#include <unistd.h>

#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

// CUDA must not be called in it.
void ring(void* doorbell) {
  const uint64_t once = 1;
  [[maybe_unused]] const ssize_t written =
      ::write(*static_cast<const int*>(doorbell), &once, sizeof once);
}

}  // namespace

Doorbell::Doorbell(int fd)
    : fd_(std::make_unique<int>(fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 0))) {}

Doorbell::~Doorbell() {
  if (fd_ && *fd_ >= 0) ::close(*fd_);
}

Status Doorbell::ring_behind(const Device& device, CUstream stream) const {
  if (*fd_ < 0) return {};
  return check(device.driver(), device.driver().stream.host_function(stream, ring, fd_.get()),
               "cuLaunchHostFunc", device.ordinal());
}

}  // namespace ringwood::cuda
