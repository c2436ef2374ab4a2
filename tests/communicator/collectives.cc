// Every collective, data type, operation, size and transport against what it must give.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/candidate.h"
#include "tests/support/inputs.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "tests/support/values.h"

namespace ringwood::testing {
namespace {

// A mean of floats is rounded once, by at most half a unit of its last place.
double tolerance(DataType type, ReduceOp op) {
  const TypeTraits& row = traits_of(type);
  if (op != ReduceOp::avg || row.mantissa_bits == 0) return 0;
  return 1.1 * std::ldexp(0.5, -row.mantissa_bits);
}

void check(Guarded& got, DataType type, ReduceOp op, int n, size_t count, const std::string& what) {
  if (!got.guards_intact()) throw std::runtime_error(what + ": wrote outside its buffer");
  for (size_t i = 0; i < count; ++i) {
    const double want = shown(type, expected(type, op, i, n));
    if (!(std::abs(got[i] - want) <= tolerance(type, op) * std::max(1.0, std::abs(want))))
      throw std::runtime_error(
          fmt::format("{}: element {} is {} instead of {}", what, i, got[i], want));
  }
}

void all_reduce_once(Communicator& c, DataType type, ReduceOp op, size_t count,
                     const CallOptions& call) {
  Guarded buffer(count, type);
  for (size_t i = 0; i < count; ++i) buffer.set(i, input(type, op, i, c.rank()));
  CallOptions o = call;
  o.factor = 0.5;
  must(c.all_reduce(buffer.data(), count, type, op, o));
  check(buffer, type, op, c.size(), count,
        fmt::format("all_reduce {} {} x {} {}", to_string(type), to_string(op), count,
                    call.algorithm));
}

struct Case {
  std::string transports;
  int n;
};
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}", info.param.transports, info.param.n);
}
std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<int> pair = {2}, few = {2, 3}, some = {2, 3, 4, 5},
                         many = {2, 3, 4, 5, 6, 7, 8, 9};
  for (const std::string& t : every_transport())
    for (int n : is_emulated(t) ? few : kSlow ? std::vector<int>{2, 3, 5} : many)
      all.push_back({t, n});
  for (const std::string& t : every_sharing("zero_copy"))
    for (int n : is_emulated(t) ? pair : kSlow ? std::vector<int>{2, 3, 5} : some)
      all.push_back({t, n});
  for (const std::string& t : every_sharing("remapped"))
    for (int n : is_emulated(t) ? pair : few) all.push_back({t, n});
  return all;
}

class Collectives : public OnTransportOf<Case> {};
INSTANTIATE_TEST_SUITE_P(Groups, Collectives, ::testing::ValuesIn(cases()), name_of);

TEST_P(Collectives, AllReduceEveryTypeAndOp) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    for (int t = 0; t < kDataTypes; ++t)
      for (int o = 0; o < kReduceOps; ++o) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<ReduceOp>(o);
        if (!supports(type, op)) continue;
        // Of what a sanitizer finds nothing depends on the type and the operation together.
        if (kSlower > 1 && c.size() > 3 && (t + o) % 4) continue;
        for (size_t count : {0, 1, 7, 4099}) {
          if (count == 4099 && (t + o + c.size()) % 3)
            continue;  // a third of the pairs at each n, all over the n
          all_reduce_once(c, type, op, count, {});
        }
      }
  });
}

TEST_P(Collectives, AllReduceEveryAlgorithm) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    for (const AlgorithmRow& row : algorithm_table()) {
      if (row.collective != Collective::all_reduce || !row.accepts(c.size())) continue;
      int nth = c.size();  // half of the pairs at each n, all over the n
      for (size_t count : {1, 13, 1000, 70001}) {
        ++nth;
        for (int segments : {1, 3}) {
          if ((nth + segments / 2) % 2) continue;
          CallOptions call;
          call.algorithm = row.name;
          call.segments = segments;
          all_reduce_once(c, DataType::float32, ReduceOp::sum, count, call);
          call.synchronous = true;
          all_reduce_once(c, DataType::bfloat16, ReduceOp::sum, count, call);
          all_reduce_once(c, DataType::int64, ReduceOp::max, count, call);
        }
      }
    }
  });
}

// Calls `body` with every row of a collective, a few sizes and segments, and every root where there
// is one.
template <class Body>
void for_each_row(Communicator& c, Collective collective, Body body) {
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != collective || !row.accepts(c.size())) continue;
    for (int root = 0; root < (has_root(collective) ? c.size() : 1); ++root) {
      int nth = c.size() + root;  // half of the pairs at each n and root, all over them
      for (size_t count : {0, 1, 7, 3001}) {
        ++nth;
        for (int segments : {1, 2}) {
          if ((nth + segments / 2) % 2) continue;
          CallOptions call;
          call.algorithm = row.name;
          call.segments = segments;
          body(count, root, call);
        }
      }
    }
  }
}

constexpr DataType kType = DataType::int32;
double tag_value(int rank, size_t i) { return static_cast<double>(rank * 100000 + i); }

void must_be(Guarded& buffer, size_t i, double want, const char* what) {
  if (buffer[i] != want)
    throw std::runtime_error(
        fmt::format("{}: element {} is {} instead of {}", what, i, buffer[i], want));
  if (!buffer.guards_intact())
    throw std::runtime_error(fmt::format("{}: wrote outside its buffer", what));
}

TEST_P(Collectives, Reduce) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    for_each_row(c, Collective::reduce, [&](size_t count, int root, const CallOptions& call) {
      Guarded b(count, kType);
      for (size_t i = 0; i < count; ++i) b.set(i, static_cast<double>(i + c.rank()));
      must(c.reduce(b.data(), count, kType, ReduceOp::sum, root, call));
      const int n = c.size();
      for (size_t i = 0; i < count; ++i)
        must_be(b, i,
                c.rank() == root ? static_cast<double>(n * i + n * (n - 1) / 2)
                                 : static_cast<double>(i + c.rank()),
                "reduce");
    });
  });
}

TEST_P(Collectives, Broadcast) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    for_each_row(c, Collective::broadcast, [&](size_t count, int root, const CallOptions& call) {
      Guarded b(count, kType);
      for (size_t i = 0; i < count; ++i) b.set(i, tag_value(c.rank(), i));
      must(c.broadcast(b.data(), count, kType, root, call));
      for (size_t i = 0; i < count; ++i) must_be(b, i, tag_value(root, i), "broadcast");
    });
  });
}

TEST_P(Collectives, AllGather) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    for_each_row(c, Collective::all_gather, [&](size_t count, int, const CallOptions& call) {
      Guarded in(count, kType), out(count * c.size(), kType);
      for (size_t i = 0; i < count; ++i) in.set(i, tag_value(c.rank(), i));
      must(c.all_gather(in.data(), out.data(), count, kType, call));
      for (int r = 0; r < c.size(); ++r)
        for (size_t i = 0; i < count; ++i)
          must_be(out, r * count + i, tag_value(r, i), "all_gather");
    });
  });
}

TEST_P(Collectives, AllGatherUneven) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    const auto count_of = [](int r) { return static_cast<size_t>(r % 3 * 1000 + r); };
    Guarded in(count_of(c.rank()), kType);
    for (size_t i = 0; i < in.count(); ++i) in.set(i, tag_value(c.rank(), i));
    std::vector<Guarded> outs;
    std::vector<Block> blocks;
    for (int r = 0; r < c.size(); ++r) outs.emplace_back(count_of(r), kType);
    for (auto& o : outs) blocks.push_back({o.data(), o.count()});
    must(c.all_gather({in.data(), in.count()}, blocks, kType));
    for (int r = 0; r < c.size(); ++r)
      for (size_t i = 0; i < outs[r].count(); ++i)
        must_be(outs[r], i, tag_value(r, i), "uneven all_gather");
  });
}

TEST_P(Collectives, ReduceScatter) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    const int n = c.size();
    for_each_row(c, Collective::reduce_scatter, [&](size_t count, int, const CallOptions& call) {
      Guarded in(count * n, kType), out(count, kType);
      for (size_t i = 0; i < count * n; ++i) in.set(i, static_cast<double>(i + c.rank()));
      must(c.reduce_scatter(in.data(), out.data(), count, kType, ReduceOp::sum, call));
      for (size_t i = 0; i < count; ++i)
        must_be(out, i, static_cast<double>(n * (i + c.rank() * count) + n * (n - 1) / 2),
                "reduce_scatter");
      for (size_t i = 0; i < count * n; ++i)
        must_be(in, i, static_cast<double>(i + c.rank()), "reduce_scatter's input");
    });
  });
}

TEST_P(Collectives, AllToAll) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    const auto n = static_cast<size_t>(c.size());
    for_each_row(c, Collective::all_to_all, [&](size_t count, int, const CallOptions& call) {
      Guarded in(count * n, kType), out(count * n, kType);
      for (size_t i = 0; i < count * n; ++i) in.set(i, tag_value(c.rank(), i));
      must(c.all_to_all(in.data(), out.data(), count, kType, call));
      for (size_t i = 0; i < count * n; ++i) {
        const size_t theirs = static_cast<size_t>(c.rank()) * count + i % count;
        must_be(out, i, tag_value(static_cast<int>(i / count), theirs), call.algorithm.c_str());
        must_be(in, i, tag_value(c.rank(), i), "all_to_all's input");
      }
    });
  });
}

TEST_P(Collectives, AllToAllUneven) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    const auto count_of = [](int from, int to) {
      return static_cast<size_t>((from + 2 * to) % 4 * 500);
    };
    std::vector<Guarded> ins, outs;
    for (int p = 0; p < c.size(); ++p) {
      ins.emplace_back(count_of(c.rank(), p), kType);
      outs.emplace_back(count_of(p, c.rank()), kType);
      for (size_t i = 0; i < ins[p].count(); ++i) ins[p].set(i, tag_value(c.rank(), i) + p);
    }
    std::vector<ConstBlock> in;
    std::vector<Block> out;
    for (int p = 0; p < c.size(); ++p) {
      in.push_back({ins[p].data(), ins[p].count()});
      out.push_back({outs[p].data(), outs[p].count()});
    }
    must(c.all_to_all(in, out, kType));
    for (int p = 0; p < c.size(); ++p)
      for (size_t i = 0; i < outs[p].count(); ++i)
        must_be(outs[p], i, tag_value(p, i) + c.rank(), "all_to_all");
  });
}

TEST_P(Collectives, GatherAndScatter) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    const int n = c.size();
    for_each_row(c, Collective::gather, [&](size_t count, int root, const CallOptions& call) {
      Guarded in(count, kType), all(count * n, kType), back(count, kType);
      for (size_t i = 0; i < count; ++i) in.set(i, tag_value(c.rank(), i));
      std::vector<Block> out;
      std::vector<ConstBlock> parts;
      if (c.rank() == root)
        for (int r = 0; r < n; ++r) {
          out.push_back({all.data() + r * count * 4, count});
          parts.push_back({all.data() + r * count * 4, count});
        }
      must(c.gather({in.data(), count}, out, kType, root, call));
      if (c.rank() == root)
        for (int r = 0; r < n; ++r)
          for (size_t i = 0; i < count; ++i) must_be(all, r * count + i, tag_value(r, i), "gather");
      must(c.scatter(parts, {back.data(), count}, kType, root));
      for (size_t i = 0; i < count; ++i) must_be(back, i, tag_value(c.rank(), i), "scatter");
    });
  });
}

TEST_P(Collectives, ManyAsynchronousOnesInOrder) {
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    std::vector<std::vector<float>> buffers(40);
    std::vector<OperationPtr> operations;
    for (int k = 0; k < 40; ++k) {
      buffers[k].assign(1 + k * 37, static_cast<float>(k + c.rank()));
      operations.push_back(
          c.all_reduce(buffers[k].data(), buffers[k].size(), DataType::float32, ReduceOp::sum));
    }
    must(c.barrier());
    const int n = c.size();
    for (int k = 0; k < 40; ++k) {
      must(operations[k]);
      for (float v : buffers[k])
        if (v != static_cast<float>(n * k + n * (n - 1) / 2))
          throw std::runtime_error(fmt::format("operation {}: {}", k, v));
    }
  });
}

// No rank leaves a barrier before the last one has come.
TEST_P(Collectives, Barrier) {
  std::atomic<int> arrived{0};
  const int n = GetParam().n;
  run_ranks(n, GetParam().transports, [&](Communicator& c) {
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      must(c.barrier());
      if (arrived.load() < round * n) throw std::runtime_error("left a barrier early");
      must(c.barrier());
    }
  });
}

// Placements that this machine has not: two ranks on each memory node, on one host or on two.
void run_on_nodes(bool two_hosts, const std::function<void(Communicator&)>& body) {
  const auto options = [&](int rank) {
    Options o = options_for(two_hosts ? "mixed" : usual_transport(), rank);
    if (two_hosts) o.host_id = rank < 4 ? "a" : "b";
    o.numa_node = rank / 2;
    return o;
  };
  run_ranks(8, options, body);
}

TEST(Nodes, AreUsedByTheHierarchicalRows) {
  CallOptions call;
  call.algorithm = "hierarchical_nodes";
  for (const bool two_hosts : {false, true})
    run_on_nodes(two_hosts, [&](Communicator& c) {
      for (const size_t count : {1, 1000, 70001})
        all_reduce_once(c, DataType::float32, ReduceOp::sum, count, call);
    });
  run_on_nodes(false, [&](Communicator& c) {
    std::vector<float> data(5000, c.rank() == 3 ? 7.0f : 0.0f);
    must(c.broadcast(data.data(), data.size(), DataType::float32, 3, call));
    if (data != std::vector<float>(5000, 7)) throw std::runtime_error("broadcast");
  });
}

TEST(Explain, OfACommunicatorNamesItsChoice) {
  run_on_nodes(false, [](Communicator& c) {
    for (const size_t bytes : {size_t{64}, size_t{1} << 20}) {
      const auto rows = c.explain(Collective::all_reduce, bytes);
      const auto chosen = c.choice(Collective::all_reduce, bytes, DataType::float32, ReduceOp::sum);
      int count = 0;
      bool nodes = false;
      for (const Candidate& row : rows) {
        nodes = nodes || row.algorithm == "hierarchical_nodes";
        if (!row.chosen) continue;
        ++count;
        if (row.algorithm != chosen.algorithm || row.segments != chosen.segments)
          throw std::runtime_error(row.algorithm + " is not " + chosen.algorithm);
      }
      if (count != 1 || !nodes) throw std::runtime_error("no choice, or no nodes");
    }
  });
}

}  // namespace
}  // namespace ringwood::testing
