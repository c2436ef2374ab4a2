// Messages with tags: matching, order, any source, early and late receives, sizes around the eager
// limit.
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

class Messages : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, Messages, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

std::vector<int> pattern(size_t count, int seed) {
  std::vector<int> v(count);
  std::iota(v.begin(), v.end(), seed * 1000000);
  return v;
}
void must_equal(const std::vector<int>& got, const std::vector<int>& want,
                const std::string& what) {
  if (got != want) throw std::runtime_error(what + ": wrong data");
}

TEST_P(Messages, EverySizeAroundARing) {
  run_ranks(4, GetParam(), [&](Communicator& c) {
    const int next = (c.rank() + 1) % 4, before = (c.rank() + 3) % 4;
    for (size_t count : {0, 1, 5, 4095, 4096, 4097, 300000}) {
      auto out = pattern(count, c.rank());
      std::vector<int> in(count, -1);
      auto s = c.send(out.data(), count, DataType::int32, next, 7);
      auto r = c.recv(in.data(), count, DataType::int32, before, 7);
      must(r);
      must(s);
      must_equal(in, pattern(count, before), fmt::format("{} elements", count));
      if (r->source() != before) throw std::runtime_error("source");
    }
  });
}

TEST_P(Messages, TagsMatchWhateverTheOrder) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    constexpr int kMessages = 30;
    const auto count_of = [](int tag) {
      return static_cast<size_t>(tag % 3 ? tag * 10 + 1 : tag * 2000 + 1);
    };
    std::vector<std::vector<int>> buffers(kMessages);
    std::vector<OperationPtr> operations;
    for (int k = 0; k < kMessages; ++k) {
      const int tag =
          c.rank() == 0 ? k : kMessages - 1 - k;  // the receiver asks in the opposite order
      if (c.rank() == 0) {
        buffers[tag] = pattern(count_of(tag), tag);
        operations.push_back(c.send(buffers[tag].data(), count_of(tag), DataType::int32, 1, tag));
      } else {
        buffers[tag].assign(count_of(tag), -1);
        operations.push_back(c.recv(buffers[tag].data(), count_of(tag), DataType::int32, 0, tag));
      }
    }
    for (auto& op : operations) must(op);
    for (int tag = 0; tag < kMessages; ++tag)
      must_equal(buffers[tag], pattern(count_of(tag), tag), fmt::format("tag {}", tag));
  });
}

TEST_P(Messages, OneTagKeepsItsOrder) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    std::vector<std::vector<int>> buffers(20);
    std::vector<OperationPtr> operations;
    for (int k = 0; k < 20; ++k) {
      const size_t count =
          10000;  // some announced, all of one size, so only the order tells them apart
      if (c.rank() == 0) {
        buffers[k] = pattern(count, k);
        operations.push_back(c.send(buffers[k].data(), count, DataType::int32, 1, 1));
      } else {
        buffers[k].assign(count, -1);
        operations.push_back(c.recv(buffers[k].data(), count, DataType::int32, 0, 1));
      }
    }
    for (auto& op : operations) must(op);
    for (int k = 0; k < 20; ++k)
      must_equal(buffers[k], pattern(10000, k), fmt::format("message {}", k));
  });
}

TEST_P(Messages, AnySourceHearsEverybodyOnce) {
  run_ranks(5, GetParam(), [&](Communicator& c) {
    for (size_t count : {3, 20000}) {
      if (c.rank() == 2) {
        std::vector<bool> heard(5, false);
        for (int k = 0; k < 4; ++k) {
          std::vector<int> in(count, -1);
          auto op = c.recv(in.data(), count, DataType::int32, kAnySource, 9);
          must(op);
          if (op->source() < 0 || op->source() == 2 || heard[op->source()])
            throw std::runtime_error("source");
          heard[op->source()] = true;
          must_equal(in, pattern(count, op->source()), "any source");
        }
      } else {
        auto out = pattern(count, c.rank());
        must(c.send(out.data(), count, DataType::int32, 2, 9));
      }
      must(c.barrier());
    }
  });
}

// A receive whose message has not been sent yet must not delay the collectives.
TEST_P(Messages, ALateMessageBlocksNoCollective) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    std::vector<int> in(50000, -1), out = pattern(50000, 1);
    OperationPtr message;
    if (c.rank() == 0) message = c.recv(in.data(), in.size(), DataType::int32, 1, 0);
    for (int k = 0; k < 20; ++k) {
      float x = 1;
      must(c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum));
      if (x != 3) throw std::runtime_error("all_reduce beside a message");
    }
    if (c.rank() == 1) message = c.send(out.data(), out.size(), DataType::int32, 0, 0);
    must(c.barrier());
    if (message) must(message);
    if (c.rank() == 0) must_equal(in, out, "late message");
  });
}

TEST_P(Messages, RandomTraffic) {
  constexpr int kRanks = 4, kEach = 120;
  run_ranks(kRanks, GetParam(), [&](Communicator& c) {
    // Every rank derives the same plan: who sends what to whom.
    std::mt19937 random(11);
    struct Item {
      int from, to, tag;
      size_t count;
    };
    std::vector<Item> items;
    for (int k = 0; k < kEach * kRanks; ++k) {
      Item i{static_cast<int>(random() % kRanks), static_cast<int>(random() % kRanks),
             static_cast<int>(random() % 5), random() % 3 ? random() % 100 : random() % 40000};
      if (i.from != i.to) items.push_back(i);
    }
    std::vector<std::vector<int>> buffers(items.size());
    std::vector<OperationPtr> operations;
    for (size_t k = 0; k < items.size(); ++k) {
      const Item& i = items[k];
      if (i.from == c.rank()) {
        buffers[k] = pattern(i.count, static_cast<int>(k));
        operations.push_back(c.send(buffers[k].data(), i.count, DataType::int32, i.to, i.tag));
      } else if (i.to == c.rank()) {
        buffers[k].assign(i.count, -1);
        operations.push_back(c.recv(buffers[k].data(), i.count, DataType::int32, i.from, i.tag));
      }
    }
    for (auto& op : operations) must(op);
    for (size_t k = 0; k < items.size(); ++k)
      if (items[k].to == c.rank())
        must_equal(buffers[k], pattern(items[k].count, static_cast<int>(k)),
                   fmt::format("item {}", k));
  });
}

TEST(MessagesOfTwoSizes, AreAnErrorThatNamesBothEnds) {
  for (size_t count : {10, 100000}) {
    std::string text[2];
    run_ranks(2, [&](Communicator& c) {
      std::vector<int> buffer(count + 1, 5);
      Status s = c.rank() == 0 ? c.send(buffer.data(), count, DataType::int32, 1, 3)->wait()
                               : c.recv(buffer.data(), count + 1, DataType::int32, 0, 3)->wait();
      // An eager send is finished before the receiver looks at it; then the group's health tells.
      if (s.ok()) s = c.barrier()->wait();
      if (!s.ok()) {
        text[c.rank()] = s.error().message();
        EXPECT_EQ(s.error().collective, "recv with tag 3");
      }
      if (buffer[count] != 5) throw std::runtime_error("wrote beyond the message");
    });
    for (const std::string& t : text)
      EXPECT_NE(t.find(fmt::format("rank 0 sent {} bytes with tag 3 while rank 1 receives {} bytes",
                                   count * 4, count * 4 + 4)),
                std::string::npos)
          << t;
  }
}

TEST_P(Messages, AnySourceIsToldWhenNobodyIsLeft) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    if (c.rank() != 1) return (void)c.shutdown();
    int32_t x = 0;
    const Status s = c.recv(&x, 1, DataType::int32, kAnySource, 9)->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::peer_lost) << s.error().message();
    EXPECT_NE(s.error().message().find("every other rank has left"), std::string::npos)
        << s.error().message();
    EXPECT_EQ(s.error().collective, "recv with tag 9");
  });
}

// Large enough to wait for its receive.
OperationPtr send_many(Communicator& c, std::vector<int>& data, const CallOptions& call = {}) {
  data.resize(100'000);
  return c.send(data.data(), data.size(), DataType::int32, 1, 11, call);
}

TEST_P(Messages, ErrorsNameTheMessageToOrFromAPeerThatLeft) {
  for (const bool sending : {false, true})
    run_ranks(2, GetParam(), [&](Communicator& c) {
      if (c.rank() == 1) return (void)c.shutdown();
      std::vector<int> data(1);
      const Status s = sending ? send_many(c, data)->wait()
                               : c.recv(data.data(), 1, DataType::int32, 1, 9)->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().collective, sending ? "send with tag 11" : "recv with tag 9")
          << s.error().message();
      EXPECT_EQ(s.error().peer, 1) << s.error().message();
    });
}

TEST_P(Messages, ErrorsNameTheMessageThatIsLate) {
  for (const bool sending : {false, true})
    run_ranks(2, GetParam(), [&](Communicator& c) {
      CallOptions call;
      call.timeout = std::chrono::milliseconds(100);
      std::vector<int> data(1);
      Status s;
      if (c.rank() == 1)
        s = c.recv(data.data(), 1, DataType::int32, 0, 12)->wait();
      else if (sending)
        s = send_many(c, data, call)->wait();
      else
        s = c.recv(data.data(), 1, DataType::int32, 1, 9, call)->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, ErrorCode::timeout) << s.error().message();
      EXPECT_EQ(s.error().collective, sending ? "send with tag 11" : "recv with tag 9");
      EXPECT_EQ(s.error().peer, 1) << s.error().message();
    });
}

}  // namespace
}  // namespace ringwood::testing
