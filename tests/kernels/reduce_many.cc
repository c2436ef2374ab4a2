// reduce_many for every data type, reduction and instruction set: numbers of operands and results,
// results that replace operands, awkward sizes and addresses, against the reference.
#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/kernels/reduce.h"
#include "tests/kernels/reduce_inputs.h"
#include "tests/kernels/reduce_reference.h"

namespace ringwood {
namespace {

using reference::Buffer;
using reference::Case;

constexpr size_t kCounts[] = {0, 1, 7, 63, 64, 65, 4099};
constexpr size_t kMaxCount = 4099;
constexpr size_t kMaxOperands = 66;

// Which results are written over operands.
enum class Alias { none, first, last, each };

struct Arity {
  size_t sources, results;
  Alias alias;
  size_t dst_offset, src_offset, guard;
};
constexpr Arity kArities[] = {
    {1, 1, Alias::none, 0, 0, 64},  {1, 3, Alias::first, 1, 0, 0},   {2, 1, Alias::first, 0, 0, 64},
    {2, 2, Alias::each, 0, 0, 0},   {2, 2, Alias::none, 3, 61, 64},  {2, 1, Alias::last, 7, 1, 0},
    {3, 1, Alias::none, 0, 2, 0},   {3, 3, Alias::each, 0, 5, 64},   {4, 4, Alias::each, 0, 0, 0},
    {5, 2, Alias::last, 13, 1, 64}, {8, 8, Alias::each, 0, 63, 0},   {9, 1, Alias::none, 1, 1, 0},
    {64, 1, Alias::first, 0, 8, 0}, {66, 64, Alias::each, 0, 1, 64}, {17, 2, Alias::last, 0, 0, 0},
};
// Larger ones see no more of the kernels than these do.
constexpr size_t kMaxElements = 17 * kMaxCount;

class ManyOperands : public ::testing::TestWithParam<Case> {
 protected:
  DataType type() const { return std::get<0>(GetParam()); }
  size_t size() const { return size_of(type()); }

  // Operand k is what lies here from k * kMaxCount elements on.
  static const uint8_t* operand(DataType type, size_t k) {
    static DataType filled = type;
    static std::vector<uint8_t> numbers;
    if (numbers.empty() || filled != type) {
      numbers.assign(kMaxOperands * kMaxCount * size_of(type), 0);
      reference::fill(numbers.data(), kMaxOperands * kMaxCount, type, 7);
      filled = type;
    }
    return numbers.data() + k * kMaxCount * size_of(type);
  }

  // What the results are, from elements as the reference folds them.
  std::vector<uint8_t> expected(size_t sources, size_t count, ReduceOp op, int64_t divisor) const {
    std::vector<uint8_t> want(count * size());
    for (size_t i = 0; i < want.size(); i += size()) {
      std::vector<const uint8_t*> elements;
      for (size_t k = 0; k < sources; ++k) elements.push_back(operand(type(), k) + i);
      reference::fold(&want[i], elements, type(), op, divisor);
    }
    return want;
  }

  void check(const Arity& arity, size_t count, ReduceOp op, int64_t divisor,
             const std::vector<uint8_t>& want) const;

 private:
  reference::ForcedSimd forced_{std::get<1>(GetParam())};
};

// Which operand result d is written over, or none.
bool replaces(const Arity& arity, size_t d, size_t& source) {
  source = arity.alias == Alias::last ? arity.sources - 1 : d;
  if (arity.alias == Alias::none || source >= arity.sources) return false;
  return arity.alias == Alias::each || d == 0;
}

void ManyOperands::check(const Arity& arity, size_t count, ReduceOp op, int64_t divisor,
                         const std::vector<uint8_t>& want) const {
  const size_t bytes = count * size();
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<const void*> srcs;
  std::vector<void*> dsts;
  std::vector<bool> replaced(arity.sources, false);
  for (size_t k = 0; k < arity.sources; ++k) {
    buffers.push_back(std::make_unique<Buffer>(bytes, arity.src_offset + k, arity.guard));
    std::copy_n(operand(type(), k), bytes, buffers.back()->data());
    srcs.push_back(buffers.back()->data());
  }
  for (size_t d = 0, source = 0; d < arity.results; ++d) {
    if (replaces(arity, d, source)) {
      dsts.push_back(buffers[source]->data());
      replaced[source] = true;
    } else {
      buffers.push_back(std::make_unique<Buffer>(bytes, arity.dst_offset + d, arity.guard));
      dsts.push_back(buffers.back()->data());
    }
  }
  reduce_many(dsts, srcs, count, type(), op, divisor);
  for (const void* dst : dsts) {
    ASSERT_TRUE(reference::same(static_cast<const uint8_t*>(dst), want.data(), count, type()))
        << "result " << std::find(dsts.begin(), dsts.end(), dst) - dsts.begin();
  }
  for (size_t k = 0; k < arity.sources; ++k) {
    if (replaced[k]) continue;
    const auto* left = static_cast<const uint8_t*>(srcs[k]);
    ASSERT_TRUE(std::equal(left, left + bytes, operand(type(), k))) << "operand " << k;
  }
  for (const auto& buffer : buffers) ASSERT_TRUE(buffer->guards_intact());
}

TEST_P(ManyOperands, AgreeWithReference) {
  for (const ReduceOp op : reference::all_ops()) {
    if (!supports(type(), op)) continue;
    for (const Arity& arity : kArities) {
      const auto divisor = op == ReduceOp::avg ? static_cast<int64_t>(arity.sources) : 1;
      for (const size_t count : kCounts) {
        if (arity.sources * count > kMaxElements) continue;
        SCOPED_TRACE(std::string(to_string(op)) + " of " + std::to_string(count) + ", " +
                     std::to_string(arity.sources) + " to " + std::to_string(arity.results));
        check(arity, count, op, divisor, expected(arity.sources, count, op, divisor));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A partial average is a sum; a group may also be larger than what is folded here.
TEST_P(ManyOperands, AverageOverOtherThanTheirNumber) {
  if (!supports(type(), ReduceOp::avg)) return;
  const Arity arity{3, 2, Alias::each, 0, 1, 0};
  for (const int64_t divisor : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{1000}, kMaxDivisor}) {
    SCOPED_TRACE(divisor);
    check(arity, 333, ReduceOp::avg, divisor, expected(3, 333, ReduceOp::avg, divisor));
  }
}

// By definition.
TEST_P(ManyOperands, AreTheChainOfTwos) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    if (!supports(type(), op) || accumulates_wide(type(), op)) continue;
    const size_t bytes = kMaxCount * size();
    std::vector<const void*> srcs;
    for (size_t k = 0; k < 6; ++k) srcs.push_back(operand(type(), k));
    std::vector<uint8_t> chain(operand(type(), 0), operand(type(), 0) + bytes), got(bytes);
    for (size_t k = 1; k < 6; ++k) reduce(chain.data(), srcs[k], kMaxCount, type(), op);
    void* const dst = got.data();
    reduce_many({&dst, 1}, srcs, kMaxCount, type(), op);
    EXPECT_TRUE(reference::same(got.data(), chain.data(), kMaxCount, type())) << to_string(op);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ManyOperands,
                         reference::on_every_target(reference::types_that([](DataType) {
                           return true;
                         })),
                         reference::name_of);

}  // namespace
}  // namespace ringwood
