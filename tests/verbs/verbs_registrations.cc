// The cache of registrations, with a registrar that keeps books instead of a device.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "transports/verbs/rail/registrations.h"

namespace ringwood::verbs {
namespace {

constexpr size_t kMiB = size_t{1} << 20, kPiece = Registrations::kMaxBytes;

Arena& arena() { return *Arena::of_process(); }

class Block {
 public:
  explicit Block(size_t bytes) : data_(static_cast<std::byte*>(arena().allocate(bytes))) {}
  ~Block() { give_back(); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void give_back() {
    if (data_) arena().release(std::exchange(data_, nullptr));
  }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

// What is registered, and on demand a refusal.
struct Books {
  std::map<uintptr_t, size_t> live;  // by number
  uintptr_t made = 0;
  size_t most = SIZE_MAX, bytes = 0;
  int told = 0;

  Registrations::Registrar registrar() {
    return {[this](std::byte* data, size_t n, Registration& entry) {
              EXPECT_TRUE(arena().block_of(data, n)) << "of more than one block";
              errno = ENOMEM;
              if (bytes + n > most) return false;
              bytes += n;
              live[++made] = n;
              entry.handle = reinterpret_cast<void*>(made);
              entry.key = static_cast<uint32_t>(made);
              return true;
            },
            [this](void* handle) {
              const auto found = live.find(reinterpret_cast<uintptr_t>(handle));
              ASSERT_NE(found, live.end()) << "given back twice";
              bytes -= found->second;
              live.erase(found);
            },
            [this](size_t, int error) {
              EXPECT_EQ(error, ENOMEM);
              ++told;
            }};
  }
};

uint32_t use_briefly(Registrations& cache, const std::byte* data, size_t bytes = kPiece) {
  Registration* used = cache.use(data, bytes);
  if (!used) return 0;
  const uint32_t key = used->key;
  Registrations::end(used);
  return key;
}

TEST(VerbsRegistrations, AreFoundAgainByWhateverBeginsInTheirWindow) {
  Books books;
  Registrations cache(arena(), books.registrar(), {.bytes = 200 * kMiB});
  const Block block(40 * kMiB);
  const uint64_t offset = *arena().offset_of(block.data(), 1);
  std::map<uint64_t, uint32_t> keys;  // by window
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const size_t bytes = 1 + random() % kPiece, at = random() % (40 * kMiB - bytes);
    const uint32_t key = use_briefly(cache, block.data() + at, bytes);
    ASSERT_NE(key, 0u);
    const uint32_t known =
        keys.try_emplace((offset + at) / Registrations::kWindow, key).first->second;
    // What lies in two may be served by either.
    if ((offset + at) % Registrations::kWindow >= kPiece) {
      ASSERT_EQ(key, known);
    }
  }
  EXPECT_EQ(books.made, keys.size());
  EXPECT_EQ(cache.bytes(), books.bytes);
}

TEST(VerbsRegistrations, AreOfNothingBeyondABlock) {
  Books books;
  Registrations cache(arena(), books.registrar(), {.bytes = 200 * kMiB});
  Block block(kPiece);
  int elsewhere = 0;
  EXPECT_NE(cache.use(block.data(), kPiece), nullptr);
  EXPECT_EQ(books.bytes, kPiece);
  EXPECT_EQ(cache.use(block.data() + 1, kPiece), nullptr);
  EXPECT_EQ(cache.use(reinterpret_cast<std::byte*>(&elsewhere), 4), nullptr);
}

TEST(VerbsRegistrations, MakeRoomForOthersUnlessTheyAreInUse) {
  Books books;
  Registrations cache(arena(), books.registrar(), {.number = 3, .bytes = 10 * kMiB});
  const Block a(4 * kMiB), b(4 * kMiB), c(4 * kMiB);
  Registration* const used = cache.use(a.data(), kPiece);
  const uint32_t first = use_briefly(cache, b.data());
  ASSERT_NE(use_briefly(cache, c.data()), 0u);
  EXPECT_EQ(books.live.count(first), 0u) << "b was the only one that could go";
  Registration* const other = cache.use(c.data(), kPiece);
  EXPECT_EQ(cache.use(b.data(), kPiece), nullptr) << "both others are in use";
  EXPECT_EQ(cache.use(a.data() + kMiB, kPiece), used);
  Registrations::end(used);
  Registrations::end(used);
  Registrations::end(other);
  const uint32_t again = use_briefly(cache, b.data());
  EXPECT_NE(again, 0u);
  EXPECT_EQ(books.live.size(), 2u);
  EXPECT_EQ(cache.number(), 2u);
  EXPECT_LE(books.bytes, 10 * kMiB);
}

TEST(VerbsRegistrations, AreNoMoreThanTheKernelOnceGave) {
  Books books;
  books.most = 5 * kMiB;
  Registrations cache(arena(), books.registrar(), {.bytes = 100 * kMiB});
  const Block a(4 * kMiB), b(4 * kMiB), large(6 * kMiB);
  ASSERT_NE(use_briefly(cache, a.data()), 0u);
  EXPECT_EQ(use_briefly(cache, b.data()), 0u);
  EXPECT_EQ(use_briefly(cache, large.data()), 0u);
  EXPECT_EQ(books.told, 1);
  EXPECT_NE(use_briefly(cache, b.data()), 0u) << "a makes room, now that the bound is known";
  EXPECT_EQ(books.live.size(), 1u);
}

// As a device has them: which pages lay there when it was registered.
class Device final : public PageWatcher {
 public:
  Device() { arena().watch(*this); }  // before the cache, and so told before
  ~Device() { arena().unwatch(*this); }
  void pages_go(uint64_t offset, uint64_t bytes) noexcept override {
    for (uint64_t at = offset / kMiB; at <= (offset + bytes - 1) / kMiB; ++at) ++age_[at];
  }
  bool as_registered(const Registration& entry, uint64_t offset, size_t bytes) {
    const auto& then = then_[entry.key];
    for (uint64_t at = offset / kMiB; at <= (offset + bytes - 1) / kMiB; ++at)
      if (const auto was = then.find(at); was == then.end() || was->second != age_[at])
        return false;
    return true;
  }
  void remember(const Registration& entry, uint64_t offset, size_t bytes) {
    for (uint64_t at = offset / kMiB; at <= (offset + bytes - 1) / kMiB; ++at)
      then_[entry.key][at] = age_[at];
  }

 private:
  std::map<uint64_t, uint64_t> age_;  // of each MiB: how often its pages went
  std::map<uint32_t, std::map<uint64_t, uint64_t>> then_;
};

// Blocks of some hundred MiB, none of which is ever touched: many are handed out again with their
// pages, many without.
TEST(VerbsRegistrations, NeverServePagesThatWereGivenBack) {
  Books books;
  Device device;
  Registrations::Registrar registrar = books.registrar();
  const auto add = registrar.add;
  registrar.add = [&](std::byte* data, size_t bytes, Registration& entry) {
    const bool added = add(data, bytes, entry);
    if (added) device.remember(entry, *arena().offset_of(data, bytes), bytes);
    return added;
  };
  Registrations cache(arena(), registrar, {.number = 40, .bytes = size_t{1} << 30});
  std::mt19937 random(11);
  std::vector<std::pair<std::unique_ptr<Block>, size_t>> blocks;
  std::vector<Registration*> in_use;
  size_t served = 0;
  for (int i = 0; i < 4000; ++i) {
    if (blocks.size() < 6 && random() % 4 == 0) {
      const size_t bytes = (1 + random() % 120) * kMiB;
      blocks.emplace_back(std::make_unique<Block>(bytes), bytes);
    } else if (!blocks.empty() && random() % 8 == 0) {
      blocks.erase(blocks.begin() + static_cast<long>(random() % blocks.size()));
    } else if (!blocks.empty()) {
      const auto& [block, bytes] = blocks[random() % blocks.size()];
      const std::byte* data = block->data() + random() % (bytes - kPiece);
      if (Registration* used = cache.use(data, kPiece)) {
        ++served;
        ASSERT_TRUE(device.as_registered(*used, *arena().offset_of(data, 1), kPiece)) << i;
        in_use.push_back(used);
      }
    }
    if (in_use.size() > 8 || (!in_use.empty() && random() % 2 == 0)) {
      std::swap(in_use[random() % in_use.size()], in_use.back());
      Registrations::end(in_use.back());
      in_use.pop_back();
    }
  }
  EXPECT_GT(served, 1000u);
  EXPECT_GT(books.made, 100u);
  EXPECT_LT(books.made, served / 2);
  for (Registration* used : in_use) Registrations::end(used);
  blocks.clear();
}

TEST(VerbsRegistrations, EndWithTheirLastUseWhenTheirPagesGo) {
  Books books;
  {
    Registrations cache(arena(), books.registrar(), {.bytes = 100 * kMiB});
    Block block(600 * kMiB);  // more than the arena keeps
    std::byte* const data = block.data();
    Registration* const used = cache.use(data, kPiece);
    ASSERT_NE(used, nullptr);
    ASSERT_NE(use_briefly(cache, data + 100 * kMiB), 0u);
    EXPECT_EQ(books.live.size(), 2u);
    block.give_back();
    EXPECT_EQ(books.live.size(), 1u) << "and the other is still read";
    const Block next(600 * kMiB);
    ASSERT_EQ(next.data(), data);
    EXPECT_NE(use_briefly(cache, data), used->key);
    Registrations::end(used);
    EXPECT_EQ(books.live.size(), 1u);
  }
  EXPECT_TRUE(books.live.empty());
}

}  // namespace
}  // namespace ringwood::verbs
