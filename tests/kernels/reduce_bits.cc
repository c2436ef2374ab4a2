// What makes the bits of a reduction independent of who carries it out: operations on bits commute,
// choices are also associative, and chains, folds and instruction sets agree.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/reduce_inputs.h"
#include "tests/support/special_numbers.h"

namespace ringwood {
namespace {

using reference::Case;
using testing::fill_special;
using Bytes = std::vector<uint8_t>;

constexpr size_t kCounts[] = {1, 5, 64, 4099};

class ReduceBits : public ::testing::TestWithParam<Case> {
 protected:
  DataType type() const { return std::get<0>(GetParam()); }
  Bytes numbers(size_t count, uint64_t seed) const {
    Bytes bytes(count * size_of(type()));
    fill_special(bytes.data(), count, type(), seed);
    return bytes;
  }
  Bytes reduced(Bytes a, const Bytes& b, ReduceOp op) const {
    reduce(a.data(), b.data(), a.size() / size_of(type()), type(), op);
    return a;
  }
  Bytes folded(const std::vector<Bytes>& operands, ReduceOp op) const {
    std::vector<const void*> srcs;
    for (const Bytes& operand : operands) srcs.push_back(operand.data());
    Bytes result(operands[0].size());
    void* const dst = result.data();
    reduce_many({&dst, 1}, srcs, result.size() / size_of(type()), type(), op);
    return result;
  }

 private:
  reference::ForcedSimd forced_{std::get<1>(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(All, ReduceBits,
                         reference::on_every_target(reference::types_that([](DataType) {
                           return true;
                         })),
                         reference::name_of);

TEST_P(ReduceBits, OperandsCommute) {
  for (const ReduceOp op : reference::all_ops()) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      const Bytes a = numbers(count, 1), b = numbers(count, 2);
      EXPECT_EQ(reduced(a, b, op), reduced(b, a, op)) << to_string(op) << " of " << count;
      EXPECT_EQ(folded({a, b}, op), reduced(a, b, op)) << to_string(op) << " of " << count;
    }
  }
}

// Few elements have a way of their own.
TEST_P(ReduceBits, FewAreTheFirstOfMany) {
  for (const ReduceOp op : reference::all_ops()) {
    if (!supports(type(), op)) continue;
    const Bytes a = numbers(200, 1), b = numbers(200, 2), many = reduced(a, b, op);
    const auto first = [&](const Bytes& bytes, size_t count) {
      return Bytes(bytes.data(), bytes.data() + count * size_of(type()));
    };
    for (size_t count = 0; count <= 64; ++count)
      EXPECT_EQ(reduced(first(a, count), first(b, count), op), first(many, count))
          << to_string(op) << " of " << count;
  }
}

TEST_P(ReduceBits, ChoicesAreAssociative) {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      const Bytes a = numbers(count, 1), b = numbers(count, 2), c = numbers(count, 3);
      const Bytes left = reduced(reduced(a, b, op), c, op);
      EXPECT_EQ(reduced(a, reduced(b, c, op), op), left) << to_string(op) << " of " << count;
      EXPECT_EQ(folded({c, b, a}, op), left) << to_string(op) << " of " << count;
    }
  }
}

// An accumulation in the executor, and the same in one pass.
TEST_P(ReduceBits, ChainsAreFolds) {
  for (const ReduceOp op : reference::all_ops()) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      const std::vector<Bytes> operands = {numbers(count, 1), numbers(count, 2), numbers(count, 3)};
      Bytes chain = operands[0];
      if (accumulates_wide(type(), op)) {
        std::vector<float> wide(count);
        widen(wide.data(), chain.data(), count, type());
        for (size_t k = 1; k < 3; ++k)
          reduce_wide(wide.data(), operands[k].data(), count, type(), op);
        narrow(chain.data(), wide.data(), count, type());
      } else {
        for (size_t k = 1; k < 3; ++k) chain = reduced(chain, operands[k], op);
      }
      EXPECT_EQ(folded(operands, op), chain) << to_string(op) << " of " << count;
    }
  }
}

TEST_P(ReduceBits, InstructionSetsAgree) {
  for (const ReduceOp op : reference::all_ops()) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      const std::vector<Bytes> operands = {numbers(count, 1), numbers(count, 2), numbers(count, 3)};
      const Bytes two = reduced(operands[0], operands[1], op), three = folded(operands, op);
      const reference::ForcedSimd plain(simd_targets().back());
      EXPECT_EQ(reduced(operands[0], operands[1], op), two) << to_string(op) << " of " << count;
      EXPECT_EQ(folded(operands, op), three) << to_string(op) << " of " << count;
      force_simd_target(std::get<1>(GetParam()));
    }
  }
}

}  // namespace
}  // namespace ringwood
