// Every data type, reduction and instruction set at awkward sizes and addresses, against the
// reference.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/kernels/reduce.h"
#include "tests/kernels/reduce_inputs.h"
#include "tests/kernels/reduce_reference.h"

namespace ringwood {
namespace {

using reference::all_ops;
using reference::Buffer;
using reference::Case;
using reference::fill;
using reference::ForcedSimd;
using reference::name_of;
using reference::on_every_target;
using reference::same;
using reference::types_that;

constexpr size_t kCounts[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4097};

class Kernels : public ::testing::TestWithParam<Case> {
 protected:
  DataType type() const { return std::get<0>(GetParam()); }
  size_t size() const { return size_of(type()); }

 private:
  ForcedSimd forced_{std::get<1>(GetParam())};
};
class ScaleKernels : public Kernels {};
class WideKernels : public Kernels {};

INSTANTIATE_TEST_SUITE_P(All, Kernels, on_every_target(types_that([](DataType) { return true; })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Floats, ScaleKernels, on_every_target(types_that([](DataType type) {
                           return supports(type, ReduceOp::premul_sum);
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SmallFloats, WideKernels, on_every_target(types_that([](DataType type) {
                           return accumulates_wide(type, ReduceOp::sum);
                         })),
                         name_of);

struct Placement {
  size_t dst_offset, src_offset, guard;
};
constexpr Placement kPlacements[] = {{0, 0, 64}, {1, 2, 64}, {3, 0, 0}, {0, 7, 0}, {61, 63, 64}};

TEST_P(Kernels, ReduceAgreesWithReference) {
  for (const ReduceOp op : all_ops()) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      for (const Placement& place : kPlacements) {
        const size_t bytes = count * size();
        Buffer dst(bytes, place.dst_offset, place.guard), src(bytes, place.src_offset, place.guard);
        fill(dst.data(), count, type(), 2 * count + 1);
        fill(src.data(), count, type(), 2 * count + 2);
        std::vector<uint8_t> want(dst.data(), dst.data() + bytes);
        const std::vector<uint8_t> operand(src.data(), src.data() + bytes);
        for (size_t i = 0; i < bytes; i += size()) {
          reference::combine(&want[i], &operand[i], type(), op);
        }
        reduce(dst.data(), src.data(), count, type(), op);
        ASSERT_TRUE(same(dst.data(), want.data(), count, type()))
            << to_string(op) << " of " << count << ", dst + " << place.dst_offset;
        ASSERT_TRUE(std::equal(operand.begin(), operand.end(), src.data())) << "src was written";
        ASSERT_TRUE(dst.guards_intact() && src.guards_intact()) << to_string(op) << " " << count;
      }
    }
  }
}

TEST_P(Kernels, ReduceInPlaceWithItself) {
  for (const ReduceOp op : all_ops()) {
    if (!supports(type(), op)) continue;
    for (const size_t count : kCounts) {
      Buffer dst(count * size(), 1, 0);
      fill(dst.data(), count, type(), count);
      std::vector<uint8_t> want(dst.data(), dst.data() + count * size());
      for (size_t i = 0; i < want.size(); i += size()) {
        const std::vector<uint8_t> operand(&want[i], &want[i] + size());
        reference::combine(&want[i], operand.data(), type(), op);
      }
      reduce(dst.data(), dst.data(), count, type(), op);
      ASSERT_TRUE(same(dst.data(), want.data(), count, type())) << to_string(op) << " " << count;
    }
  }
}

TEST_P(ScaleKernels, AgreesWithReference) {
  for (const double factor : {0.5, 1.0 / 3, -7.25, 1e-3, 0.0, 1 + 0x1p-24, 0x1p-70, 1e300}) {
    for (const size_t count : kCounts) {
      Buffer dst(count * size(), 5, count % 2 * 64);
      fill(dst.data(), count, type(), count);
      std::vector<uint8_t> want(dst.data(), dst.data() + count * size());
      for (size_t i = 0; i < want.size(); i += size()) reference::scale(&want[i], type(), factor);
      scale(dst.data(), count, type(), factor);
      ASSERT_TRUE(same(dst.data(), want.data(), count, type())) << factor << " " << count;
      ASSERT_TRUE(dst.guards_intact());
    }
  }
}

TEST_P(ScaleKernels, QuotientsAgreeWithReference) {
  for (const int64_t divisor : {int64_t{3}, int64_t{-7}, int64_t{2048}, int64_t{100003},
                                kMaxDivisor, kMaxDivisor + 1, int64_t{1} << 40}) {
    for (const size_t count : {size_t{1}, size_t{65}, size_t{1000}}) {
      Buffer dst(count * size(), 3, 0);
      fill(dst.data(), count, type(), count);
      std::vector<uint8_t> want(dst.data(), dst.data() + count * size());
      for (size_t i = 0; i < want.size(); i += size()) reference::divide(&want[i], type(), divisor);
      divide(dst.data(), count, type(), divisor);
      ASSERT_TRUE(same(dst.data(), want.data(), count, type())) << divisor << " " << count;
    }
  }
}

// A chain of operands, rounded once at its end.
TEST_P(WideKernels, ChainRoundsOnce) {
  const reference::SmallFormat& format = reference::format_of(type());
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::product}) {
    for (const size_t count : kCounts) {
      Buffer wide(count * sizeof(float), 0, 0), dst(count * size(), 3, 64);
      std::vector<float> want(count);
      for (uint64_t operand = 0; operand < 6; ++operand) {
        Buffer src(count * size(), operand, 0);
        fill(src.data(), count, type(), 10 * count + operand);
        auto* sums = reinterpret_cast<float*>(wide.data());
        for (size_t i = 0; i < count; ++i) {
          const uint32_t code = reference::read_code(src.data() + i * size(), type());
          const auto value = static_cast<float>(format.decode(code));
          want[i] = operand == 0 ? value : reference::float_result(op, want[i], value);
        }
        operand == 0 ? widen(sums, src.data(), count, type())
                     : reduce_wide(sums, src.data(), count, type(), op);
        ASSERT_TRUE(
            same(wide.data(), reinterpret_cast<uint8_t*>(want.data()), count, DataType::float32));
      }
      narrow(dst.data(), reinterpret_cast<float*>(wide.data()), count, type());
      for (size_t i = 0; i < count; ++i) {
        const uint32_t code = format.encode(want[i]);
        uint8_t bits[2];
        reference::write_code(bits, type(), code);
        ASSERT_TRUE(same(dst.data() + i * size(), bits, 1, type())) << i << " of " << count;
      }
      ASSERT_TRUE(dst.guards_intact());
    }
  }
}
}  // namespace
}  // namespace ringwood
