// The caller's mistakes: refused at once with a sentence, and nothing is changed.
#include <atomic>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/operations/copied_memory.h"
#include "tests/support/ranks.h"
#include "tests/support/told_store.h"

namespace ringwood::testing {
namespace {

TEST(Mistakes, AreRefusedAtOnceAndChangeNothing) {
  struct Row {
    const char* text;
    std::function<void(Communicator&, float*)> call;
  };
  const Row rows[] = {
      {"all_reduce: a null buffer for 3 elements",
       [](auto& c, float*) { c.all_reduce(nullptr, 3, DataType::float32, ReduceOp::sum); }},
      {"all_reduce: band is not defined for float32",
       [](auto& c, float* x) { c.all_reduce(x, 3, DataType::float32, ReduceOp::band); }},
      {"all_reduce: avg is not defined for bool8",
       [](auto& c, float* x) { c.all_reduce(x, 3, DataType::bool8, ReduceOp::avg); }},
      {"broadcast: root 2 in a group of 2 ranks",
       [](auto& c, float* x) { c.broadcast(x, 3, DataType::float32, 2); }},
      {"reduce: root -1 in a group of 2 ranks",
       [](auto& c, float* x) { c.reduce(x, 3, DataType::float32, ReduceOp::sum, -1); }},
      {"send: no rank 7 in a group of 2",
       [](auto& c, float* x) { c.send(x, 1, DataType::float32, 7, 0); }},
      {"recv: rank 0 cannot be its own peer",
       [](auto& c, float* x) { c.recv(x, 1, DataType::float32, 0, 0); }},
      {"all_to_all: 1 input blocks for a group of 2 ranks",
       [](auto& c, float* x) {
         c.all_to_all({{x, 1}}, {{x, 1}, {x, 1}}, DataType::float32);
       }},
      {"all_to_all: input block 1 shares memory with output block 1",
       [](auto& c, float* x) {
         c.all_to_all({{x, 1}, {x + 1, 1}}, {{x, 1}, {x + 1, 1}}, DataType::float32);
       }},
      {"all_to_all: output block 0 shares memory with output block 1",
       [](auto& c, float* x) {
         float in[2];
         c.all_to_all({{in, 1}, {in + 1, 1}}, {{x, 1}, {x, 1}}, DataType::float32);
       }},
      {"all_gather: output block 0 shares memory with output block 1",
       [](auto& c, float* x) {
         float in[2];
         c.all_gather({in, 2}, {{x, 2}, {x + 1, 2}}, DataType::float32);
       }},
      {"all_gather: input block 0 shares memory with output block 1",
       [](auto& c, float* x) { c.all_gather(x + 1, x, 1, DataType::float32); }},
      {"reduce_scatter: input block 1 shares memory with output block 0",
       [](auto& c, float* x) { c.reduce_scatter(x, x + 1, 1, DataType::float32, ReduceOp::sum); }},
      {"gather: input block 0 shares memory with output block 1",
       [](auto& c, float* x) {
         c.gather({x + 1, 1}, {{x, 1}, {x + 1, 1}}, DataType::float32, 0);
       }},
      {"scatter: input block 1 shares memory with output block 0",
       [](auto& c, float* x) {
         c.scatter({{x, 1}, {x + 1, 1}}, {x + 1, 1}, DataType::float32, 0);
       }},
      {"all_reduce: 18446744073709551615 elements of float32 are more than a process has memory",
       [](auto& c, float* x) { c.all_reduce(x, SIZE_MAX, DataType::float32, ReduceOp::sum); }},
      {"reduce: 4611686018427387905 elements of float32 are more than",  // 4 bytes beyond 64 bits
       [](auto& c, float* x) {
         c.reduce(x, (size_t{1} << 62) + 1, DataType::float32, ReduceOp::sum, 0);
       }},
      {"broadcast: 1152921504606846976 elements of float64 are more than",
       [](auto& c, float* x) { c.broadcast(x, size_t{1} << 60, DataType::float64, 0); }},
      {"all_gather: 2 blocks of 4611686018427387904 elements of uint8 are more than",
       [](auto& c, float* x) { c.all_gather(x, x + 1, size_t{1} << 62, DataType::uint8); }},
      {"reduce_scatter: 2 blocks of 18446744073709551615 elements of float32 are more than",
       [](auto& c, float* x) {
         c.reduce_scatter(x, x + 1, SIZE_MAX, DataType::float32, ReduceOp::sum);
       }},
      {"all_to_all: 2 blocks of 4611686018427387904 elements of float32 are more than",
       [](auto& c, float* x) { c.all_to_all(x, x + 1, size_t{1} << 62, DataType::float32); }},
      {"all_to_all: 13835058055282163712 elements of uint8 are more than",  // together
       [](auto& c, float* x) {
         const size_t large = size_t{3} << 61;
         c.all_to_all({{x, large}, {x, large}}, {{x, large}, {x, large}}, DataType::uint8);
       }},
      {"gather: 2 blocks of 18446744073709551615 elements of float32 are more than",
       [](auto& c, float* x) {
         c.gather({x, SIZE_MAX}, {}, DataType::float32, 1);
       }},
      {"scatter: 18446744073709551615 elements of float32 are more than",
       [](auto& c, float* x) {
         CallOptions uneven;
         uneven.uneven = true;
         c.scatter({}, {x, SIZE_MAX}, DataType::float32, 1, uneven);
       }},
      {"send: 4611686018427387905 elements of float32 are more than",
       [](auto& c, float* x) { c.send(x, (size_t{1} << 62) + 1, DataType::float32, 1, 0); }},
      {"recv: 18446744073709551615 elements of float32 are more than",
       [](auto& c, float* x) { c.recv(x, SIZE_MAX, DataType::float32, 1, 0); }},
      {"reduce: CallOptions::copied is for memory of the host",
       [](auto& c, float* x) {
         CallOptions o;
         o.on.device = 0;
         o.copied = std::make_shared<CopiedMemory>();
         c.reduce(x, 3, DataType::float32, ReduceOp::sum, 1, o);
       }},
      {"no algorithm 'magic' for all_reduce with 2 ranks; there are: ",
       [](auto& c, float* x) {
         CallOptions o;
         o.algorithm = "magic";
         c.all_reduce(x, 3, DataType::float32, ReduceOp::sum, o);
       }},
  };
  run_ranks(2, [&](Communicator& c) {
    float x[3] = {1, 2, 3};
    if (c.rank() == 0)
      for (const Row& row : rows) {
        try {
          row.call(c, x);
          ADD_FAILURE() << "accepted: " << row.text;
        } catch (const Error& e) {
          EXPECT_EQ(e.code, ErrorCode::invalid_argument);
          EXPECT_NE(e.message().find(row.text), std::string::npos) << e.message();
        }
      }
    must(c.all_reduce(x, 3, DataType::float32, ReduceOp::sum));  // the group is as good as new
    EXPECT_EQ(x[2], 6);
  });
}

TEST(Mistakes, WrongSizeOrTransport) {
  EXPECT_THROW(Communicator::create(memory_store(), 2, 2), Error);
  EXPECT_THROW(Communicator::create(memory_store(), 0, 0), Error);
  Options o;
  o.transports = {"pigeon"};
  try {
    Communicator::create(memory_store(), 0, 2, o);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("no transport 'pigeon'; there are: "), std::string::npos)
        << e.message();
  }
}

TEST(Mistakes, ARankThatNeverComesIsNamed) {
  // Too short is a limit that ends before the two have met.
  const auto both_name_them = [](std::chrono::milliseconds limit) {
    auto store = memory_store();
    std::vector<std::thread> ranks;
    std::atomic<int> named{0};
    for (int r : {0, 2})
      ranks.emplace_back([&, r] {
        Options o = options_for(r);
        o.init_timeout = limit;
        try {
          Communicator::create(store, r, 4, o);
        } catch (const Error& e) {
          EXPECT_EQ(e.code, ErrorCode::timeout);
          named += e.message().find("missing ranks 1, 3") != std::string::npos;
        }
      });
    for (auto& t : ranks) t.join();
    return named == 2;
  };
  EXPECT_TRUE(with_growing_limit(std::chrono::milliseconds(300), both_name_them));
}

TEST(Mistakes, ARankThatFailsInSetUpEndsItForAllAtOnce) {
  for (int culprit : {0, 1}) {
    const std::shared_ptr<Store> whole = memory_store();
    // Lost while links are made.
    const auto lost = std::make_shared<ToldStore>(whole, [](const std::string& call) {
      if (call.find("/shm/") != call.npos) throw Error(ErrorCode::network, "the store went away");
    });
    std::vector<std::thread> ranks;
    std::atomic<int> named{0};
    for (int r : {0, 1, 2})
      ranks.emplace_back([&, r] {
        Options o = options_for(r);
        try {
          Communicator::create(r == culprit ? lost : whole, r, 3, o);
          ADD_FAILURE() << "rank " << r;
        } catch (const Error& e) {
          const bool right = e.rank == culprit && e.cause == "the store went away";
          EXPECT_TRUE(right) << "rank " << r << ": " << e.message();
          named += right;
        }
      });
    for (auto& t : ranks) t.join();
    EXPECT_EQ(named.load(), 3);
  }
}

}  // namespace
}  // namespace ringwood::testing
