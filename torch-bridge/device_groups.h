// The device groups of a backend, one for each device that its tensors are on.
//
// A device group is made at the first call with tensors of the device, which all ranks make
// together. Nothing of CUDA is needed to build, and no driver to run until then. The device may be
// of any type of torch whose streams and memory are those of NVIDIA's driver (CUDA, or a device of
// tests): only c10's interfaces for all devices are used.
//
// Thread safety: all functions. Errors: ours, thrown. In a child of fork() nothing may be called,
// and nothing be destroyed: leave it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "collectives/communicator.h"
#include "collectives/device/group/device_group.h"

namespace ringwood {

// A device in use by a group: its streams, and the executor. Outlives the group where a Work holds
// it, and then returns errors.
class DeviceUse final {
 public:
  // Collective; the Communicator must live until end().
  DeviceUse(c10::Device on, std::unique_ptr<cuda::Device> device,
            const std::shared_ptr<Communicator>& group, std::chrono::milliseconds limit);

  c10::Device device() const { return on_; }
  // What calls that do not wait run on.
  const c10::Stream& stream() const { return stream_; }
  // How long a call may wait for other ranks.
  std::chrono::milliseconds limit() const { return limit_; }
  // `stream`: of this device.
  Status enqueue(const device::DeviceCall& call, const c10::Stream& stream);
  // The first error of a call or of the group; it can be asked at any time.
  Status status();
  // Null: shut down.
  std::shared_ptr<Communicator> communicator() const { return group_.lock(); }
  // Nothing that it was given is under way.
  bool idle();
  // Waits for kernels; together with the other ranks, if the group is well.
  void end();

 private:
  const c10::Device on_;
  const c10::Stream stream_;
  const std::unique_ptr<cuda::Device> device_;
  const std::weak_ptr<Communicator> group_;
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;                            // all below
  std::unique_ptr<device::DeviceGroup> calls_;  // null: ended
  c10::Stream last_;                            // that was given a call; earlier calls end before
};

class DeviceGroups final {
 public:
  // Collective where it is made. `data`: of a tensor there, which has to be memory of the driver;
  // or null.
  std::shared_ptr<DeviceUse> of(c10::Device device, const void* data,
                                const std::shared_ptr<Communicator>& group,
                                std::chrono::milliseconds limit);
  // Waits, on the host, for what the current streams have been given, and throws the first error.
  void drain();
  bool any() const;
  // Whether all are idle by then.
  bool idle(Deadline deadline);
  void end();

 private:
  mutable std::mutex mutex_;
  std::map<c10::Device, std::shared_ptr<DeviceUse>,
           bool (*)(const c10::Device&, const c10::Device&)>
      uses_{[](const c10::Device& a, const c10::Device& b) {
        return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index());
      }};
};

// For tests: an image of kernels that takes the place of those of this build.
void use_kernel_image(std::string image);

}  // namespace ringwood
