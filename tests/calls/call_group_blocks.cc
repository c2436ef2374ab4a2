// Calls of all_gather and reduce_scatter between group_start() and group_end(): small ones of equal
// blocks become one operation, wherever their blocks lie.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/plan/protocol.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

class CallGroupBlocks : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, CallGroupBlocks, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// Of the blocks: one after the other, and the rank's single one apart from them or its own of them;
// or each for itself, in descending order of the ranks and with an element between them.
enum class Layout { apart, in_place, list };
constexpr Layout kLayouts[] = {Layout::apart, Layout::in_place, Layout::list};

struct What {
  Collective collective;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
};

// One call and its buffers.
class Call {
 public:
  Call(Communicator& c, What what, Layout layout, size_t count, size_t salt)
      : what_(what),
        layout_(layout),
        n_(c.size()),
        rank_(c.rank()),
        count_(count),
        salt_(salt),
        blocks_(n_ * (count + 1), what.type),
        single_(count, what.type) {
    for (size_t i = 0; i < blocks_.count(); ++i) blocks_.set(i, kNothing);
    for (size_t i = 0; i < count; ++i) {
      single_.set(i, gathers() ? given(rank_, 0, i) : kNothing);
      for (size_t b = 0; b < n_; ++b)
        if (!gathers() || (layout == Layout::in_place && b == rank_))
          blocks_.set(first(b) + i, given(rank_, gathers() ? 0 : b, i));
    }
    blocks_before_ = elements(blocks_);
    single_before_ = elements(single_);
  }

  OperationPtr start(Communicator& c, const CallOptions& how = {}) {
    std::byte* const own = layout_ == Layout::in_place ? at(rank_) : single_.data();
    if (layout_ != Layout::list && gathers())
      return c.all_gather(own, blocks_.data(), count_, what_.type, how);
    if (layout_ != Layout::list)
      return c.reduce_scatter(blocks_.data(), own, count_, what_.type, what_.op, how);
    std::vector<Block> list;
    for (size_t b = 0; b < n_; ++b) list.push_back({at(b), count_});
    if (gathers()) return c.all_gather({own, count_}, list, what_.type, how);
    std::vector<ConstBlock> read;
    for (const Block& block : list) read.push_back({block.data, block.count});
    return c.reduce_scatter(read, {own, count_}, what_.type, what_.op, how);
  }

  void expect_untouched() { expect(blocks_before_, single_before_); }
  void expect_result() {
    std::vector<double> blocks = blocks_before_, single = single_before_;
    for (size_t i = 0; i < count_; ++i) {
      if (gathers())
        for (size_t b = 0; b < n_; ++b) blocks[first(b) + i] = given(b, 0, i);
      else if (layout_ == Layout::in_place)
        blocks[first(rank_) + i] = reduced(i);
      else
        single[i] = reduced(i);
    }
    expect(blocks, single);
  }

 private:
  static constexpr double kNothing = 99;

  bool gathers() const { return what_.collective == Collective::all_gather; }
  // Of a block, its first element in blocks_.
  size_t first(size_t block) const {
    return layout_ == Layout::list ? (n_ - 1 - block) * (count_ + 1) : block * count_;
  }
  std::byte* at(size_t block) { return blocks_.data() + first(block) * size_of(what_.type); }
  double given(size_t rank, size_t block, size_t i) const {
    return static_cast<double>((rank * 7 + block * 5 + salt_ + i) % 30);
  }
  double reduced(size_t i) const {
    double sum = 0, most = 0;
    for (size_t r = 0; r < n_; ++r) {
      sum += given(r, rank_, i);
      most = std::max(most, given(r, rank_, i));
    }
    return what_.op == ReduceOp::max ? most : sum;
  }
  static std::vector<double> elements(Guarded& buffer) {
    std::vector<double> all;
    for (size_t i = 0; i < buffer.count(); ++i) all.push_back(buffer[i]);
    return all;
  }
  void expect(const std::vector<double>& blocks, const std::vector<double>& single) {
    const auto text = fmt::format("{} {} x {}, layout {}", to_string(what_.collective),
                                  to_string(what_.type), count_, static_cast<int>(layout_));
    EXPECT_EQ(elements(blocks_), blocks) << text;
    EXPECT_EQ(elements(single_), single) << text;
    EXPECT_TRUE(blocks_.guards_intact() && single_.guards_intact()) << text;
  }

  const What what_;
  const Layout layout_;
  const size_t n_, rank_, count_, salt_;
  Guarded blocks_, single_;
  std::vector<double> blocks_before_, single_before_;
};

constexpr What kWhat[] = {
    {Collective::all_gather},
    {Collective::reduce_scatter},
    {Collective::all_gather, DataType::int16},
    {Collective::reduce_scatter, DataType::int64, ReduceOp::max},
    {Collective::reduce_scatter, DataType::bfloat16},
};

TEST_P(CallGroupBlocks, SmallCallsAreOneOperationAndAllAreRight) {
  for (int n : {2, 3})
    run_ranks(n, GetParam(), [&](Communicator& c) {
      constexpr size_t kCalls = 12, kKinds = std::size(kWhat);
      std::vector<Call> calls, large;
      for (size_t i = 0; i < kCalls; ++i)
        for (const What& what : kWhat) calls.emplace_back(c, what, kLayouts[i % 3], i * 5, i);
      for (const What& what : kWhat) large.emplace_back(c, what, kLayouts[0], 20000, 3);
      const size_t own = static_cast<size_t>(c.rank());
      std::vector<float> mine(own + 1, c.rank() + 1.0f), all(n * (n + 1) / 2);
      std::vector<Block> uneven;
      float* to = all.data();
      for (size_t r = 0; r < static_cast<size_t>(n); to += ++r) uneven.push_back({to, r + 1});
      CallOptions at_once;
      at_once.synchronous = true;
      std::vector<OperationPtr> packed, alone;
      {
        GroupOfCalls group(c);
        for (size_t i = 0; i < calls.size(); ++i)
          packed.push_back(calls[i].start(c, i % 2 ? at_once : CallOptions{}));
        for (Call& call : large) alone.push_back(call.start(c));
        alone.push_back(c.all_gather({mine.data(), mine.size()}, uneven, DataType::float32));
      }
      for (const auto& op : packed) EXPECT_TRUE(op->done());  // every kind has a synchronous one
      for (const auto& op : alone) must(op);
      for (size_t i = 0; i < packed.size(); ++i) {
        must(packed[i]);
        EXPECT_EQ(packed[i]->sequence(), i % kKinds);
        calls[i].expect_result();
      }
      for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i]->sequence(), kKinds + i);
      for (Call& call : large) call.expect_result();
      for (size_t r = 0, i = 0; r < static_cast<size_t>(n); ++r)
        for (size_t k = 0; k <= r; ++k) EXPECT_EQ(all[i++], r + 1.0f);
    });
}

// The limit is of what is copied, all ranks' blocks.
TEST_P(CallGroupBlocks, UpToTheLimitAndOneByOneBeyond) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    const size_t most = ProtocolLimits{}.packed / 2 / sizeof(float);
    for (const What& what : {kWhat[0], kWhat[1]})
      for (size_t count : {most, most + 1}) {
        Call calls[] = {{c, what, Layout::apart, count, 1}, {c, what, Layout::list, count, 2}};
        OperationPtr ops[2];
        {
          GroupOfCalls group(c);
          for (size_t i : {0, 1}) ops[i] = calls[i].start(c);
        }
        for (const auto& op : ops) must(op);
        for (Call& call : calls) call.expect_result();
        EXPECT_EQ(ops[1]->sequence() - ops[0]->sequence(), count > most ? 1 : 0);
      }
  });
}

TEST_P(CallGroupBlocks, OneInAGroupIsItself) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    for (const What& what : kWhat)
      for (const Layout layout : kLayouts) {
        Call grouped(c, what, layout, 11, 1), plain(c, what, layout, 11, 2);
        OperationPtr op;
        if (c.rank() == 0) {
          GroupOfCalls group(c);
          op = grouped.start(c);
        } else {
          op = grouped.start(c);
        }
        must(op);
        must(plain.start(c));
        grouped.expect_result();
        plain.expect_result();
      }
  });
}

TEST_P(CallGroupBlocks, CallsBeforeAndAfterThemKeepTheirOrder) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    constexpr auto kType = DataType::float32;
    constexpr auto kSum = ReduceOp::sum;
    std::vector<float> large(1 << 22, c.rank() + 1.0f), first(128), second(128), part(64);
    CallOptions urgent;  // passes the large one, but for what they share
    urgent.priority = Priority::high;
    std::vector<OperationPtr> ops;
    ops.push_back(c.all_reduce(large.data(), large.size(), kType, kSum));
    {
      GroupOfCalls group(c);
      ops.push_back(c.all_gather(large.data(), first.data(), 64, kType, urgent));
      ops.push_back(c.all_gather(large.data() + 64, second.data(), 64, kType, urgent));
    }
    ops.push_back(c.all_reduce(first.data(), first.size(), kType, kSum, urgent));
    {
      GroupOfCalls group(c);
      ops.push_back(c.reduce_scatter(first.data(), part.data(), 64, kType, kSum, urgent));
      ops.push_back(
          c.reduce_scatter(second.data(), second.data() + 64 * c.rank(), 64, kType, kSum, urgent));
    }
    for (const auto& op : ops) must(op);
    for (const float x : first) EXPECT_EQ(x, 6);
    for (const float x : part) EXPECT_EQ(x, 12);
    for (size_t i = 0; i < second.size(); ++i)
      EXPECT_EQ(second[i], i / 64 == static_cast<size_t>(c.rank()) ? 6 : 3);
  });
}

TEST_P(CallGroupBlocks, AnotherGroupIsFoundAndNothingIsWritten) {
  struct Odd {
    const char* text;
    std::vector<size_t> counts;  // the others': 3 and 5
  };
  const Odd odd[] = {
      {"with different block sizes", {5, 3}},
      {"float32 x 9", {3, 6}},
      {"float32 x 3", {3}},
      {"float32 x 8", {3, 5, 0}},
  };
  for (const What& what : {kWhat[0], kWhat[1]})
    for (const Odd& o : odd)
      run_ranks(3, GetParam(), [&](Communicator& c) {
        std::vector<Call> calls;
        const auto counts = c.rank() == 2 ? o.counts : std::vector<size_t>{3, 5};
        for (const size_t count : counts) calls.emplace_back(c, what, kLayouts[0], count, 1);
        std::vector<OperationPtr> ops;
        {
          GroupOfCalls group(c);
          for (Call& call : calls) ops.push_back(call.start(c));
        }
        for (const auto& op : ops) {
          const Status s = op->wait();
          ASSERT_FALSE(s.ok());
          EXPECT_EQ(s.error().code, ErrorCode::mismatch) << s.error().message();
          for (const char* text : {o.text, to_string(what.collective), "packed"})
            EXPECT_NE(s.error().message().find(text), std::string::npos) << s.error().message();
        }
        for (Call& call : calls) call.expect_untouched();
      });
}

TEST_P(CallGroupBlocks, AMistakeInAGroupIsSaidAtOnceAndLeavesTheOthers) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    float x[6] = {};
    std::vector<Call> calls;
    for (const What& what : kWhat)
      for (const Layout layout : kLayouts) calls.emplace_back(c, what, layout, 4, 1);
    std::vector<OperationPtr> ops;
    {
      GroupOfCalls group(c);
      for (Call& call : calls) {
        ops.push_back(call.start(c));
        const auto f32 = DataType::float32;
        EXPECT_THROW((void)c.all_gather(x + 1, x, 2, f32), Error);
        EXPECT_THROW((void)c.all_gather(nullptr, x, 2, f32), Error);
        EXPECT_THROW((void)c.reduce_scatter(x, x + 1, 2, f32, ReduceOp::sum), Error);
        EXPECT_THROW((void)c.reduce_scatter(x, x + 4, 2, f32, ReduceOp::band), Error);
      }
    }
    for (const auto& op : ops) must(op);
    for (Call& call : calls) call.expect_result();
  });
}

}  // namespace
}  // namespace ringwood::testing
