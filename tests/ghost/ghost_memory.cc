#include "tests/ghost/ghost_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "tests/ghost/ghost_driver.h"

namespace ghost {
namespace {

namespace cuda = ringwood::cuda;

constexpr size_t kSmallest = 512, kSmall = size_t{1} << 20, kChunk = size_t{16} << 20;

struct Block {
  CUdeviceptr at = 0;
  size_t bytes = 0;
  DeviceIndex device = 0;
  StreamId made_on = 0;
  std::set<StreamId> used_on = {};                         // beside made_on
  std::vector<std::unique_ptr<cuda::Event>> pending = {};  // of a free block
};

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &Allocator::release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(on_host(to), on_host(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream on) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override { return {}; }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override {}

  std::atomic<long> recorded{0};

 private:
  using Key = std::tuple<DeviceIndex, StreamId, size_t>;
  static void release(void* data);
  Block fresh(const Key& key);

  std::mutex mutex_;
  std::map<void*, Block> used_;
  std::map<Key, std::list<Block>> free_;
  std::map<DeviceIndex, Block> chunk_;  // what is left of the last one
};

Allocator& instance() {
  static auto* const made = new Allocator;
  return *made;
}

Block Allocator::fresh(const Key& key) {
  const auto& [index, made_on, bytes] = key;
  const auto taken = [&on = device(index)](size_t room) {
    const cuda::CurrentContext context(on);
    CUdeviceptr at = 0;
    on.require(driver().memory.allocate(&at, room), "cuMemAlloc");
    return at;
  };
  if (bytes > kSmall) return {taken(bytes), bytes, index, made_on};
  Block& chunk = chunk_[index];
  if (chunk.bytes < bytes) chunk = {taken(kChunk), kChunk, index, 0};
  chunk.bytes -= bytes;
  return {chunk.at + chunk.bytes, bytes, index, made_on};
}

c10::DataPtr Allocator::allocate(size_t bytes) {
  const DeviceIndex index = current_device();
  const c10::Device on(kGhost, index);
  if (bytes == 0) return {nullptr, nullptr, &Allocator::release, on};
  const Key key{index, current_stream(index), std::max(std::bit_ceil(bytes), kSmallest)};
  const std::lock_guard lock(mutex_);
  auto& free = free_[key];
  const auto ready = std::find_if(free.begin(), free.end(), [](const Block& block) {
    return std::all_of(block.pending.begin(), block.pending.end(),
                       [](const auto& event) { return event->done(); });
  });
  Block block;
  if (ready == free.end()) {
    block = fresh(key);
  } else {
    block = std::move(*ready);
    free.erase(ready);
    block.pending.clear();
    block.used_on.clear();
  }
  void* const data = reinterpret_cast<void*>(block.at);
  used_[data] = std::move(block);
  return {data, data, &Allocator::release, on};
}

void Allocator::release(void* data) {
  if (!data) return;
  Allocator& self = instance();
  const std::lock_guard lock(self.mutex_);
  auto node = self.used_.extract(data);
  Block& block = node.mapped();
  for (const StreamId id : block.used_on) {
    block.pending.push_back(std::make_unique<cuda::Event>(device(block.device)));
    block.pending.back()->record(stream(block.device, id).get());
  }
  self.free_[{block.device, block.made_on, block.bytes}].push_back(std::move(block));
}

void Allocator::recordStream(const c10::DataPtr& data, c10::Stream on) {
  const std::lock_guard lock(mutex_);
  const auto block = used_.find(data.get());
  if (block == used_.end()) return;
  if (on.id() != block->second.made_on) block->second.used_on.insert(on.id());
  ++recorded;
}

}  // namespace

c10::DeviceAllocator& allocator() { return instance(); }
long recorded_streams() { return instance().recorded; }

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &instance());

}  // namespace ghost
