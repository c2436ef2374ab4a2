#include "tests/device/device_reference.h"

#include <algorithm>
#include <cstring>

#include "collectives/kernels/row_sums.h"
#include "collectives/plan/chunk_layout.h"
#include "collectives/schedule/compose.h"
#include "collectives/schedule/interpret.h"
#include "collectives/schedule/rows.h"

namespace ringwood::testing {
namespace {

struct Operand {
  std::vector<std::byte> data;
  int own = -1;  // the rank whose numbers they are
};

class Data {
 public:
  struct Value {
    std::vector<std::byte> data;
    int own = -1, ranks = 0;
    std::vector<Operand> row;  // a row of additions that goes on
  };

  Data(const std::vector<Schedule>& all, const ReferenceCall& call) : call_(call) {
    for (const Schedule& s : all) rows_.push_back(rows_of(s));
  }
  // By rank and chunk.
  std::vector<std::vector<Value>> start;

  Value begin(int rank, int chunk) const { return start[rank][chunk]; }
  Value add(const Move& m, const Value& target, const Value& operand) const {
    const RowPlace place = rows_[m.to][m.to_step];
    Value sum = target;
    if (place.first) sum.row = {{target.data, target.own}};
    sum.row.push_back({operand.data, operand.own});
    sum.ranks += operand.ranks;
    sum.own = -1;
    if (place.last) {
      sum.data = added(sum.row, sum.ranks == static_cast<int>(rows_.size()));
      sum.row.clear();
    }
    return sum;
  }

 private:
  std::vector<std::byte> added(std::vector<Operand>& row, bool completes) const {
    const auto [type, op] = std::pair(call_.args.type, call_.args.op);
    const size_t count = row[0].data.size() / size_of(type);
    std::vector<std::byte> result(row[0].data.size());
    if (count == 0) return result;
    const int n = static_cast<int>(rows_.size());
    const bool is_bool = traits_of(type).kind == NumberKind::boolean;
    void* const dst = result.data();
    std::vector<const void*> srcs;
    if (op == ReduceOp::premul_sum && !is_small_float(type))
      for (Operand& one : row)
        if (one.own >= 0) scale(one.data.data(), count, type, call_.factors[one.own]);
    for (const Operand& one : row) srcs.push_back(one.data.data());
    if (op != ReduceOp::avg && !scales_operands(type, op)) {
      const ReduceOp plain = op == ReduceOp::premul_sum ? ReduceOp::sum : op;
      reduce_many({&dst, 1}, srcs, count, type, plain);
    } else if (op == ReduceOp::avg && (is_bool || (is_integer(type) && !call_.whole))) {
      reduce_many({&dst, 1}, srcs, count, type, ReduceOp::sum);
      if (completes && !is_bool) divide(dst, count, type, n);
    } else if (op == ReduceOp::avg && call_.whole && !is_small_float(type)) {
      reduce_many({&dst, 1}, srcs, count, type, ReduceOp::avg, n);
    } else {
      const double down = op == ReduceOp::avg ? average_scale(n) : 1;
      std::vector<double> scales;
      for (const Operand& one : row)
        scales.push_back(one.own < 0 ? 1 : op == ReduceOp::avg ? down : call_.factors[one.own]);
      const double divisor = op == ReduceOp::avg && completes ? n * down : 1;
      reduce_scaled({&dst, 1}, srcs, scales, count, type, divisor);
    }
    return result;
  }

  const ReferenceCall& call_;
  std::vector<std::vector<RowPlace>> rows_;
};

// Where a chunk is in what the user passes.
struct UserPlace {
  bool output = false;
  size_t offset = 0;
};
UserPlace user_place(const CollectiveArgs& args, int n, int chunk, size_t offset) {
  const size_t block = args.count * size_of(args.type);
  switch (traits_of(args.collective).chunks) {
    case Chunks::outputs: return {true, chunk * block + offset};
    case Chunks::inputs_and_output:
    case Chunks::inputs_and_outputs:
      return chunk < n ? UserPlace{false, chunk * block + offset}
                       : UserPlace{true, (chunk - n) * block + offset};
    default: return {true, offset};
  }
}

}  // namespace

RankBytes reference(const std::vector<Schedule>& all, const ReferenceCall& call,
                    const RankBytes& inputs, const RankBytes& before) {
  const CollectiveArgs& args = call.args;
  const int n = static_cast<int>(all.size());
  const bool blocks = traits_of(args.collective).chunks == Chunks::outputs;
  RankBytes outputs = before;
  for (int segment = 0; segment < call.segments; ++segment) {
    Data data(all, call);
    std::vector<ChunkLayout> layouts;
    for (int rank = 0; rank < n; ++rank) {
      Schedule sizes = all[rank];
      sizes.steps.clear();
      layouts.emplace_back(sizes, segments(sizes, call.segments), args, call.segments);
      auto& chunks = data.start.emplace_back(all[rank].chunks);
      for (int chunk = 0; chunk < all[rank].chunks; ++chunk) {
        const GroupRank at{rank, n, args.root};
        if (!begins_with(args.collective, at, chunk) || !has_memory(args.collective, at, chunk))
          continue;
        const Span span{segment * all[rank].chunks + chunk, 1};
        const size_t offset = layouts[rank].place(span).offset;
        const std::byte* const from =
            inputs[rank].data() + (blocks ? offset : user_place(args, n, chunk, offset).offset);
        chunks[chunk] = {{from, from + layouts[rank].bytes(span)}, rank, 1, {}};
      }
    }
    const auto ends = execute(all, data);
    for (int rank = 0; rank < n; ++rank)
      for (int chunk = 0; chunk < all[rank].chunks; ++chunk) {
        if (!ends_with(args.collective, {rank, n, args.root}, chunk) ||
            !may_write(args.collective, {rank, n, args.root}, chunk))
          continue;
        const Span span{segment * all[rank].chunks + chunk, 1};
        const UserPlace to = user_place(args, n, chunk, layouts[rank].place(span).offset);
        const auto& bytes = ends[rank][chunk].data;
        std::copy(bytes.begin(), bytes.end(),
                  outputs[rank].begin() + static_cast<ptrdiff_t>(to.offset));
      }
  }
  return outputs;
}

}  // namespace ringwood::testing
