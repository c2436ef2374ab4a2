// The streams of a verbs link against a fabric that reorders, repeats and loses, without a device.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "transports/verbs/ring/incoming.h"
#include "transports/verbs/ring/outgoing.h"

namespace ringwood::verbs {
namespace {

TEST(VerbsImmediates, FindTheNearestPosition) {
  for (uint64_t near :
       {uint64_t{0}, uint64_t{1} << 37, (uint64_t{1} << 37) - 64, uint64_t{1} << 50}) {
    for (int64_t away : {-1 << 20, -64, 0, 64, 1 << 20}) {
      if (away < 0 && near < uint64_t(-away)) continue;
      const Immediate there{away > 0, near + away};
      const Immediate back = unpack(pack(there), near);
      EXPECT_EQ(back.credit, there.credit);
      EXPECT_EQ(back.position, there.position) << near << " " << away;
    }
  }
}

TEST(VerbsArrivals, AreContiguousUpToTheFirstGap) {
  Arrivals arrivals(1 << 16);
  arrivals.add(128, 10);
  EXPECT_EQ(arrivals.end(), 0u);
  arrivals.add(0, 64);
  EXPECT_EQ(arrivals.end(), 64u);
  arrivals.add(64, 1);
  EXPECT_EQ(arrivals.end(), 192u);
  arrivals.add(0, 64);
  EXPECT_EQ(arrivals.end(), 192u);
  EXPECT_FALSE(arrivals.allowed(193, 64, 0)) << "not a multiple of 64";
  EXPECT_FALSE(arrivals.allowed(192, 0, 0));
  EXPECT_FALSE(arrivals.allowed(uint64_t{1} << 16, 1, 0)) << "beyond what was read";
  EXPECT_TRUE(arrivals.allowed(uint64_t{1} << 16, 1, 64));
}

// A sender and a receiver; pieces travel as (position, bytes, contents), over paths or, in order,
// over the fallback connection, which may be slow: paths are back in use while it still has pieces
// of before.
// Some messages are sent zero-copy; as soon as any is sent, its memory is overwritten.
class Fabric {
 public:
  static constexpr uint64_t kRing = 4096;
  explicit Fabric(uint32_t seed) : random_(seed) {
    for (int k = 0; k < 300; ++k) {
      out_data_.emplace_back(1 + random_() % (k % 10 == 0 ? 20000 : 200));
      for (auto& byte : out_data_.back()) byte = std::byte(random_());
      in_data_.emplace_back(out_data_.back().size());
      in_place_.push_back(random_() % 2 == 0);
    }
    sent_data_ = out_data_;
    for (size_t k = 0; k < out_data_.size(); ++k) {
      std::vector<std::byte>& data = out_data_[k];
      if (random_() % 3 == 0) {
        out_.post_zero_copy(data.data(), data.size(), hold_);
      } else {
        out_.post(data.data(), data.size());
      }
    }
    for (size_t k = 0; k < in_data_.size(); ++k)
      in_.post(in_place_[k] ? nullptr : in_data_[k].data(), in_data_[k].size());
  }

  void run() {
    for (int step = 0; in_.received() < in_data_.size(); ++step) {
      ASSERT_LT(step, 200000) << "nothing moves: " << in_.received();
      send();
      lose_a_path();
      deliver_late();
      land();
      read();
    }
    for (size_t k = 0; k < in_data_.size(); ++k) ASSERT_EQ(in_data_[k], sent_data_[k]) << k;
    flying_.clear();
    overwrite_what_is_sent();
    EXPECT_EQ(out_.sent(), out_data_.size());
    EXPECT_FALSE(out_.reads_user_memory());
    EXPECT_TRUE(out_.idle());
    EXPECT_EQ(hold_.use_count(), 1);
    EXPECT_GT(late_, 0u);
  }

 private:
  struct Flying {
    uint64_t position;
    std::vector<std::byte> bytes;
  };

  void fly(Piece& piece) {
    const std::byte* at = out_.at(piece);
    flying_.push_back({piece.position, {at, at + piece.bytes}});
  }

  void send() {
    overwrite_what_is_sent();
    for (int n = random_() % 4; n > 0; --n) {
      Piece* piece = out_.next();
      if (!piece) return;
      // As when no registration is to be had.
      if (piece->user_data && random_() % 5 == 0) out_.copy(*piece);
      fly(*piece);
    }
  }

  void overwrite_what_is_sent() {
    out_.forget([&](const Piece& piece) { return piece.landed || !is_flying(piece.position); });
    ASSERT_GE(out_.sent(), overwritten_);
    for (; overwritten_ < out_.sent(); ++overwritten_)
      std::fill(out_data_[overwritten_].begin(), out_data_[overwritten_].end(), std::byte{0});
  }

  bool is_flying(uint64_t position) const {
    for (const Flying& one : flying_)
      if (one.position == position) return true;
    return false;
  }

  // Both ends have closed it: what flew may have landed or not, and is written again, by another
  // path or over the fallback connection. Of zero-copy messages only that: the rest may be
  // overwritten.
  void lose_a_path() {
    if (random_() % 50 != 0) return;
    std::set<uint64_t> unknown;
    for (const Flying& one : flying_) {
      unknown.insert(one.position);
      if (random_() % 2 == 0) put(one);
    }
    flying_.clear();
    const bool over_fallback = random_() % 2 == 0;
    for (size_t i = 0; i < out_.pieces().size(); ++i) {
      Piece& piece = out_.pieces()[i];
      if (piece.landed || out_.read(piece)) continue;
      if (piece.user_data && !unknown.count(piece.position)) continue;
      if (over_fallback) {
        const std::byte* at = out_.at(piece);
        fallback_.push_back({piece.position, {at, at + piece.bytes}});
        piece.landed = true;
        continue;
      }
      piece.replayed = true;
      fly(piece);
    }
  }

  void deliver_late() {
    const bool needed = flying_.empty() && !in_.readable();
    for (int n = needed || random_() % 40 == 0 ? 1 + random_() % 8 : 0; n > 0 && !fallback_.empty();
         --n) {
      late_ += fallback_.front().position < in_.arrived();
      ASSERT_TRUE(in_.take(fallback_.front().position, fallback_.front().bytes));
      fallback_.pop_front();
    }
  }

  void put(const Flying& one) {
    std::memcpy(in_ring_ + one.position % kRing, one.bytes.data(), one.bytes.size());
    ASSERT_TRUE(in_.arrive(one.position, one.bytes.size())) << one.position;
  }

  void land() {
    for (int n = random_() % 4; n > 0 && !flying_.empty(); --n) {
      const size_t i = random_() % std::min<size_t>(flying_.size(), 3);
      put(flying_[i]);
      flying_.erase(flying_.begin() + i);
    }
  }

  void read() {
    in_.store();
    const std::span<const std::byte> piece = in_.in_place();
    if (!piece.empty() && random_() % 2 == 0) {
      std::vector<std::byte>& data = in_data_[in_.received()];
      const bool last = offset_ + piece.size() == data.size();
      ASSERT_TRUE(last || (offset_ + piece.size()) % 16 == 0);
      const size_t bytes = 1 + random_() % piece.size();
      std::memcpy(data.data() + offset_, piece.data(), bytes);
      offset_ = offset_ + bytes == data.size() ? 0 : offset_ + bytes;
      in_.consume(bytes);
    }
    if (in_.credit_due()) {
      ASSERT_TRUE(out_.credit(in_.credit()));
      in_.credit_sent();
    }
  }

  std::mt19937 random_;
  std::vector<std::vector<std::byte>> out_data_, sent_data_, in_data_;
  std::shared_ptr<const int> hold_ = std::make_shared<const int>(0);
  uint64_t overwritten_ = 0;
  std::vector<bool> in_place_;
  alignas(64) std::byte out_ring_[kRing], in_ring_[kRing];
  Outgoing out_{{out_ring_, kRing}, kRing / 8, 32};
  Incoming in_{{in_ring_, kRing}, 32};
  std::deque<Flying> flying_, fallback_;
  size_t late_ = 0;  // second copies, whose first was there already
  size_t offset_ = 0;
};

TEST(VerbsStreams, ArriveWholeWhateverTheFabricDoes) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    auto fabric = std::make_unique<Fabric>(seed);
    fabric->run();
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(VerbsStreams, TakeFromTheFallbackOnlyWhatMayBeThere) {
  std::byte ring[4096], piece[64] = {};
  Incoming in({ring, sizeof ring}, 32);
  EXPECT_FALSE(in.take(32, piece)) << "not a multiple of 64";
  EXPECT_FALSE(in.take(0, {}));
  EXPECT_FALSE(in.take(4096, piece)) << "beyond what was read";
  EXPECT_TRUE(in.take(0, piece));
  ring[0] = std::byte{7};
  EXPECT_TRUE(in.take(0, piece)) << "again, and late";
  EXPECT_EQ(ring[0], std::byte{7});
  EXPECT_TRUE(in.take(~uint64_t{63}, piece)) << "far behind, in the numbers that wrap";
  EXPECT_EQ(in.arrived(), 64u);
}

TEST(VerbsStreams, EndAZeroCopyMessageOnlyWhenAllOfItAndAllBeforeItHasLanded) {
  std::byte ring[4096], data[1000] = {};
  Outgoing out({ring, sizeof ring}, 512, 32);
  out.post_zero_copy(data, sizeof data);
  out.post(data, 100);
  out.post_zero_copy(data, 100);
  std::set<uint64_t> landed;
  const auto step = [&](uint64_t position) {
    landed.insert(position);
    out.forget([&](const Piece& piece) { return landed.count(piece.position) > 0; });
    return out.sent();
  };
  for (uint64_t position : {0, 512, 1024, 1152}) {
    const Piece* piece = out.next();
    ASSERT_NE(piece, nullptr);
    ASSERT_EQ(piece->position, position);
    EXPECT_EQ(out.at(*piece) == ring + position, position == 1024) << position;
  }
  EXPECT_EQ(out.next(), nullptr);
  EXPECT_EQ(step(512), 0u);
  EXPECT_EQ(step(1152), 0u);
  EXPECT_EQ(step(0), 3u) << "what is copied need not land";
  EXPECT_TRUE(out.idle());
  EXPECT_FALSE(out.reads_user_memory());
  EXPECT_EQ(out.pieces().size(), 4u) << "the peer has read nothing";
  ASSERT_TRUE(out.credit(1024));
  EXPECT_EQ(step(0), 3u);
  EXPECT_EQ(out.pieces().size(), 2u);
}

TEST(VerbsStreams, BelieveNoCreditBeyondWhatWasSent) {
  std::byte ring[4096];
  Outgoing out({ring, sizeof ring}, 512, 32);
  std::byte data[100] = {};
  out.post(data, sizeof data);
  ASSERT_NE(out.next(), nullptr);
  EXPECT_FALSE(out.credit(192));
  EXPECT_TRUE(out.credit(128));
}

}  // namespace
}  // namespace ringwood::verbs
