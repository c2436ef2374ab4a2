#include "tests/ptx/memory.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/ptx/arithmetic/arithmetic.h"

namespace ringwood::ptx {
namespace {

// Windows: of shared memory below 2^32, since its addresses are 32 bits wide.
constexpr uint64_t kShared = uint64_t{1} << 31, kSharedWindow = 256 << 10;
constexpr uint64_t kParam = uint64_t{1} << 32, kParamWindow = 64 << 10;
constexpr uint64_t kLocal = uint64_t{1} << 40, kLocalEnd = uint64_t{1} << 41;
constexpr uint64_t kLocalWindow = 1 << 20;

uint64_t loaded(const Instruction& x, uint64_t value) {
  if (!is_signed(x.type)) return value;
  return low_bits(static_cast<uint64_t>(sign_extended(value, bits_of(x.type))), x.dst_bits);
}

uint64_t read_bytes(const void* from, size_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

Strong strong(const Instruction& x, uint64_t address, uint32_t bytes) {
  return {address, bytes, x.order, x.scope, static_cast<uint32_t>(x.line)};
}

void expect_aligned(uint64_t address, uint64_t bytes) {
  if (address % bytes != 0)
    throw Fault(Fault::misaligned, fmt::format("{:#x} is no multiple of {}", address, bytes));
}

const char* space_name(Space space) {
  constexpr const char* kNames[] = {"generic", "global", "shared", "local", "param", "constant"};
  return kNames[static_cast<int>(space)];
}

}  // namespace

void Memory::make_shadow(Region& region, bool written) {
  region.shadow = std::make_unique<Shadow>(region.base, region.bytes, written);
  region.words = std::make_unique<Words>(*region.shadow, region.base, region.data);
}

void Memory::map(const std::string& name, void* base, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(base);
  const auto after = regions_.lower_bound(address);
  const bool into_next = after != regions_.end() && after->first < address + bytes;
  const bool into_last = after != regions_.begin() &&
                         std::prev(after)->second->base + std::prev(after)->second->bytes > address;
  if (bytes == 0 || into_next || into_last || address + bytes < address ||
      (address < kLocalEnd && address + bytes > kShared))
    throw std::invalid_argument(fmt::format("{}: overlaps with other memory", name));
  auto region = std::make_unique<Region>(
      Region{name, address, bytes, static_cast<char*>(base), Space::global});
  make_shadow(*region, true);
  regions_[address] = std::move(region);
}

uint64_t Memory::add(const std::string& name, Space space, std::span<const uint8_t> initial) {
  auto region = std::make_unique<Region>(Region{name, 0, initial.size(), nullptr, space});
  region->owned.assign(initial.begin(), initial.end());
  region->data = region->owned.data();
  if (space == Space::shared) {
    if (initial.size() > kSharedWindow) throw std::invalid_argument(name + ": no such block");
    const auto free = std::ranges::find_if(shared_, [](const auto& one) { return !one; });
    const auto window = static_cast<uint64_t>(free - shared_.begin());
    if (free == shared_.end()) shared_.emplace_back();
    region->base = kShared + window * kSharedWindow;
    make_shadow(*region, false);
    shared_[window] = std::move(region);
    return kShared + window * kSharedWindow;
  }
  if (space == Space::global) {
    region->base = reinterpret_cast<uint64_t>(region->data);
    make_shadow(*region, true);
  } else {
    region->base = kParam + next_param_;
    next_param_ += (initial.size() / kParamWindow + 1) * kParamWindow;
  }
  const uint64_t base = region->base;
  regions_[base] = std::move(region);
  return base;
}

void Memory::remove(uint64_t address) {
  Region* region = find(address);
  if (region == nullptr) return;
  if (region->shadow) checked_ += region->shadow->checked(), stale_ += region->words->stale();
  last_ = nullptr;
  if (region->space == Space::shared)
    shared_[(address - kShared) / kSharedWindow].reset();
  else
    regions_.erase(region->base);
}

uint64_t Memory::add_local() { return kLocal + next_local_++ * kLocalWindow; }

Memory::Region* Memory::find(uint64_t address) const {
  if (last_ != nullptr && address - last_->base < last_->bytes) return last_;
  Region* region = nullptr;
  if (address >= kShared && address < kParam) {
    const uint64_t window = (address - kShared) / kSharedWindow;
    if (window < shared_.size()) region = shared_[window].get();
  } else {
    const auto after = regions_.upper_bound(address);
    if (after != regions_.begin()) region = std::prev(after)->second.get();
  }
  if (region == nullptr || address - region->base >= region->bytes) return nullptr;
  return last_ = region;
}

bool Memory::is_in(uint64_t address, Space space) const {
  if (address >= kLocal && address < kLocalEnd) return space == Space::local;
  const Region* region = find(address);
  return (region != nullptr ? region->space : Space::global) == space;
}

std::string Memory::name_of(uint64_t address) const {
  if (address >= kLocal && address < kLocalEnd)
    return fmt::format("local memory + {}", address % kLocalWindow);
  if (const Region* region = find(address))
    return fmt::format("{} + {}", region->name, address - region->base);
  const auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return fmt::format("{:#x}, in no range", address);
  const Region& before = *std::prev(after)->second;
  return fmt::format("{:#x}, in no range, {} bytes behind {}", address,
                     address - before.base - before.bytes, before.name);
}

Memory::Region& Memory::checked_region(const Instruction& x, uint64_t address, uint64_t bytes,
                                       bool writes) const {
  Region* region = find(address);
  if (region == nullptr || address + bytes > region->base + region->bytes)
    throw Fault(Fault::outside, fmt::format("{} bytes at {}", bytes, name_of(address)));
  if (x.space != Space::generic && x.space != region->space)
    throw Fault(Fault::outside,
                fmt::format("no {} memory: {}", space_name(x.space), name_of(address)));
  if (writes && !region->shadow)
    throw Fault(Fault::outside, fmt::format("{} is not to be written", name_of(address)));
  expect_aligned(address, bytes);
  return *region;
}

void Memory::access_weak(const Agent& agent, Region& region, const Touch& touch) {
  met_.clear();
  region.shadow->access(agent, touch, met_);
  for (const uint32_t word : met_) region.words->check_weak(agent, touch, word);
}

void Memory::load(Agent& agent, LocalMemory& own, const Instruction& x, uint64_t* slots) {
  const uint64_t address = slots[x.src[0]] + static_cast<uint64_t>(x.offset);
  if (address >= kLocal && address < kLocalEnd) return load_local(own, x, address, slots);
  const uint32_t bytes = static_cast<uint32_t>(bits_of(x.type)) / 8;
  Region& region = checked_region(x, address, uint64_t{bytes} * x.count, false);
  if (region.shadow && x.order != Order::weak) {
    // The elements of a vector have no order.
    const bool backwards = x.count > 1 && random_.below(2) == 0;
    for (uint32_t i = 0; i < x.count; ++i) {
      const uint32_t at = backwards ? x.count - 1 - i : i;
      const Strong access = strong(x, address + uint64_t{at} * bytes, bytes);
      slots[x.dst[at]] = loaded(x, region.words->load(agent, access, random_));
    }
    return;
  }
  if (region.shadow)
    access_weak(agent, region, {address, bytes * x.count, false, static_cast<uint32_t>(x.line)});
  const char* from = region.data + (address - region.base);
  for (uint32_t i = 0; i < x.count; ++i)
    slots[x.dst[i]] = loaded(x, read_bytes(from + i * bytes, bytes));
}

void Memory::store(Agent& agent, LocalMemory& own, const Instruction& x, uint64_t* slots) {
  const uint64_t address = slots[x.src[0]] + static_cast<uint64_t>(x.offset);
  if (address >= kLocal && address < kLocalEnd) return store_local(own, x, address, slots);
  const uint32_t bytes = static_cast<uint32_t>(bits_of(x.type)) / 8;
  Region& region = checked_region(x, address, uint64_t{bytes} * x.count, true);
  if (x.order != Order::weak) {
    for (uint32_t i = 0; i < x.count; ++i)
      region.words->store(agent, strong(x, address + uint64_t{i} * bytes, bytes),
                          low_bits(slots[x.src[1 + i]], static_cast<int>(8 * bytes)));
    return;
  }
  access_weak(agent, region, {address, bytes * x.count, true, static_cast<uint32_t>(x.line)});
  char* to = region.data + (address - region.base);
  for (uint32_t i = 0; i < x.count; ++i) std::memcpy(to + i * bytes, &slots[x.src[1 + i]], bytes);
  for (const uint32_t word : met_)
    region.words->note_weak_write(agent, word, static_cast<uint32_t>(x.line));
}

void Memory::load_local(LocalMemory& own, const Instruction& x, uint64_t address, uint64_t* slots) {
  const uint64_t bytes = static_cast<uint64_t>(bits_of(x.type)) / 8, at = address - own.base;
  if (at >= own.bytes.size() || at + bytes * x.count > own.bytes.size() ||
      (x.space != Space::generic && x.space != Space::local))
    throw Fault(Fault::outside, name_of(address) + ", which is not this thread's or frame's");
  expect_aligned(address, bytes * x.count);
  for (uint64_t i = 0; i < bytes * x.count; ++i)
    if (own.written[at + i] == 0)
      throw Fault(Fault::uninitialised, name_of(address) + ": reads what nobody has written");
  for (uint64_t i = 0; i < x.count; ++i)
    slots[x.dst[i]] = loaded(x, read_bytes(own.bytes.data() + at + i * bytes, bytes));
}

void Memory::store_local(LocalMemory& own, const Instruction& x, uint64_t address,
                         uint64_t* slots) {
  const uint64_t bytes = static_cast<uint64_t>(bits_of(x.type)) / 8, at = address - own.base;
  if (at >= own.bytes.size() || at + bytes * x.count > own.bytes.size() ||
      (x.space != Space::generic && x.space != Space::local))
    throw Fault(Fault::outside, name_of(address) + ", which is not this thread's or frame's");
  expect_aligned(address, bytes * x.count);
  for (uint64_t i = 0; i < x.count; ++i)
    std::memcpy(own.bytes.data() + at + i * bytes, &slots[x.src[1 + i]], bytes);
  std::memset(own.written.data() + at, 1, bytes * x.count);
}

void Memory::touch(const Agent& agent, const void* base, size_t bytes, Access access) {
  const auto address = reinterpret_cast<uint64_t>(base);
  Region* region = bytes == 0 ? nullptr : find(address);
  if (bytes == 0) return;
  if (region == nullptr || !region->shadow || address + bytes > region->base + region->bytes)
    throw Fault(Fault::outside, fmt::format("{} bytes at {}", bytes, name_of(address)));
  const bool writes = access == Access::write;
  access_weak(agent, *region, {address, static_cast<uint32_t>(bytes), writes, 0});
  if (writes)
    for (const uint32_t word : met_) region->words->expect_outside(agent, word);
}

uint64_t Memory::checked() const {
  uint64_t sum = checked_;
  for (const auto& [base, region] : regions_) sum += region->shadow ? region->shadow->checked() : 0;
  for (const auto& region : shared_) sum += region ? region->shadow->checked() : 0;
  return sum;
}
uint64_t Memory::stale() const {
  uint64_t sum = stale_;
  for (const auto& [base, region] : regions_) sum += region->words ? region->words->stale() : 0;
  for (const auto& region : shared_) sum += region ? region->words->stale() : 0;
  return sum;
}

}  // namespace ringwood::ptx
