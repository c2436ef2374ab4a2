// How torch handles the ghost device: which one is current, its streams and events.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "tests/ghost/ghost_driver.h"
#include "tests/ghost/ghost_memory.h"

namespace ghost {
namespace {

namespace cuda = ringwood::cuda;

cuda::Event* event_of(void* event) { return static_cast<cuda::Event*>(event); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kGhost; }
  c10::Device exchangeDevice(c10::Device next) const override {
    return {kGhost, std::exchange(current_device(), index_of(next))};
  }
  c10::Device getDevice() const override { return {kGhost, current_device()}; }
  void setDevice(c10::Device next) const override { current_device() = index_of(next); }
  void uncheckedSetDevice(c10::Device next) const noexcept override {
    current_device() = index_of(next);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  void synchronizeDevice(DeviceIndex index) const override {
    for (int id = 0; id < kStreams; ++id) stream(index, id).synchronize();
  }

  c10::Stream getStream(c10::Device on) const override {
    make_current(index_of(on));
    return made(index_of(on), current_stream(index_of(on)));
  }
  c10::Stream getDefaultStream(c10::Device on) const override { return made(index_of(on), 0); }
  c10::Stream getNewStream(c10::Device on, int priority) const override {
    return getStreamFromGlobalPool(on, priority < 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device on, bool high) const override {
    static std::atomic<int> next{0};
    return made(index_of(on), 1 + (high ? kPool : 0) + next++ % kPool);
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return made(next.device_index(), std::exchange(current_stream(next.device_index()), next.id()));
  }
  void* getStreamNativeHandle(const c10::Stream s) const override { return of(s).get(); }
  bool queryStream(const c10::Stream& s) const override { return of(s).idle(); }
  void synchronizeStream(const c10::Stream& s) const override { of(s).synchronize(); }

  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete event_of(event); }
  void record(void** event, const c10::Stream& s, DeviceIndex, c10::EventFlag) const override {
    if (!*event) {
      *event = new cuda::Event(device(s.device_index()));
    }
    event_of(*event)->record(of(s).get());
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event) of(s).wait(*event_of(event));
  }
  bool queryEvent(void* event) const override { return !event || event_of(event)->done(); }
  void synchronizeEvent(void* event) const override {
    if (event) event_of(event)->synchronize();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& s) const override {
    allocator().recordStream(data, s);
  }

 private:
  // As torch has it with CUDA: the device's primary context is the thread's current one.
  static void make_current(DeviceIndex index) {
    thread_local DeviceIndex pushed = -1;
    if (std::exchange(pushed, index) != index)
      device(index).require(driver().context.push(device(index).context()), "cuCtxPushCurrent");
  }
  static DeviceIndex index_of(c10::Device on) {
    return on.has_index() ? on.index() : current_device();
  }
  static c10::Stream made(DeviceIndex index, StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kGhost, index), id);
  }
  static cuda::Stream& of(const c10::Stream& s) { return stream(s.device_index(), s.id()); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return device_count(); }
  DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(DeviceIndex next) const override { current_device() = next; }
  DeviceIndex exchangeDevice(DeviceIndex next) const override {
    return std::exchange(current_device(), next);
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex next) const override {
    return std::exchange(current_device(), next);
  }
  // Copies to the host wait for it in any case.
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  // FSDP gives memory back so, and takes it again.
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const c10::DeviceGuard guard(storage.device());
    c10::DataPtr next = allocator().allocate(bytes);
    const size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0) {
      current(storage.device().index()).synchronize();
      allocator().copy_data(next.get(), storage.data(), kept);
    }
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(next));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};
const bool hooked = (at::RegisterPrivateUse1HooksInterface(new Hooks), true);

}  // namespace
}  // namespace ghost
