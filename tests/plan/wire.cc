// Wire formats in schedules: which rows may use them, and that every such row ends with equal bits
// on all ranks, within the error that was promised, with fewer bytes sent.
#include "collectives/kernels/wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "collectives/algorithms/algorithms.h"
#include "collectives/executors/plan_runner.h"
#include "collectives/plan/wire_schedule.h"
#include "tests/support/inputs.h"
#include "tests/support/meshes.h"

namespace ringwood::testing {
namespace {

// Counts what is sent, and shows what arrives in small pieces.
class CountingLink final : public Link {
 public:
  CountingLink(std::unique_ptr<Link> inner, size_t& sent) : inner_(std::move(inner)), sent_(sent) {}
  Status post_send(const void* data, size_t bytes) override {
    sent_ += bytes;
    return inner_->post_send(data, bytes);
  }
  Status post_recv(void* data, size_t bytes) override { return inner_->post_recv(data, bytes); }
  Status post_incoming(size_t bytes) override { return inner_->post_incoming(bytes); }
  std::span<const std::byte> incoming() override {
    const std::span<const std::byte> all = inner_->incoming();
    return all.first(std::min(all.size(), size_t{16} << random_() % 14));
  }
  void consume(size_t bytes) override { inner_->consume(bytes); }
  Status poll(Completions& completions) override { return inner_->poll(completions); }
  void abort() noexcept override { inner_->abort(); }

 private:
  std::unique_ptr<Link> inner_;
  size_t& sent_;
  std::mt19937 random_{5};
};

using Numbers = std::vector<std::vector<float>>;  // by rank

Numbers inputs(int n, size_t count) {
  std::mt19937 random(static_cast<unsigned>(n * 1000 + count));
  std::normal_distribution<float> number;
  Numbers x(n, std::vector<float>(count));
  for (auto& of_rank : x)
    for (float& v : of_rank) v = number(random);
  return x;
}

class Group {
 public:
  explicit Group(int n) : meshes_(loopback_meshes(n, LoopbackFaults{})) {
    for (auto& mesh : meshes_) {
      for (Peer& peer : mesh->peers) {
        auto& link = peer.link[kCollectiveChannel];
        if (link) link = std::make_unique<CountingLink>(std::move(link), sent_);
      }
      executors_.push_back(std::make_unique<PlanRunner>(*mesh));
    }
  }

  // In place; the bytes that were sent.
  size_t run(const std::vector<Schedule>& schedules, Collective collective, int segments,
             const Wire& wire, Numbers& x) {
    const size_t n = schedules.size();
    CollectiveArgs args;
    args.collective = collective;
    args.type = DataType::float32;
    args.count = x[0].size();
    std::vector<std::shared_ptr<const Plan>> plans;
    std::vector<std::vector<void*>> buffers(n);
    sent_ = 0;
    for (size_t r = 0; r < n; ++r) {
      const bool encoded = wire.format != WireFormat::exact;
      plans.push_back(
          make_plan(encoded ? with_roundings(schedules[r], collective, wire.host) : schedules[r],
                    args, "test", segments, Protocol::queued, wire));
      buffers[r].push_back(x[r].data());
      Fingerprint fingerprint = plans[r]->fingerprint;
      fingerprint.sequence = sequence_;
      executors_[r]->start({plans[r].get(), fingerprint, buffers[r], {}, {}, false});
    }
    ++sequence_;
    bool busy = true;
    for (const Deadline end = patiently(); busy && !end.passed();) {
      busy = false;
      for (auto& executor : executors_) {
        bool progressed = false;
        if (executor->idle()) continue;
        busy = true;
        if (Status s = executor->step(progressed); !s)
          throw std::runtime_error(s.error().message());
      }
    }
    if (busy) throw std::runtime_error("no end");
    for (const auto& plan : plans)
      for (const PeerQueue& queue : plan->peers) sent_ -= queue.preambles_out * sizeof(Preamble);
    return sent_;
  }

 private:
  std::vector<std::unique_ptr<Mesh>> meshes_;
  std::vector<std::unique_ptr<PlanRunner>> executors_;
  size_t sent_ = 0;
  uint64_t sequence_ = 0;
};

bool equal_on_all(const Numbers& x) {
  for (const auto& of_rank : x)
    if (!of_rank.empty() &&
        std::memcmp(of_rank.data(), x[0].data(), x[0].size() * sizeof(float)) != 0)
      return false;
  return true;
}

// The bound of wire.h, element by element. Where blocks begin depends on the chunks: for int8 the
// largest of all stand for the largest of a block.
void expect_within(const std::vector<float>& got, const Numbers& in, WireFormat format,
                   int roundings) {
  double largest = 0;
  for (const auto& of_rank : in) {
    float most = 0;
    for (const float v : of_rank) most = std::max(most, std::fabs(v));
    largest += most;
  }
  const double bound = error_bound(format, roundings);
  for (size_t i = 0; i < got.size(); ++i) {
    double sum = 0, magnitudes = 0;
    for (const auto& of_rank : in) {
      sum += of_rank[i];
      magnitudes += std::fabs(of_rank[i]);
    }
    // fp32's own rounding of the sum, too.
    const double allowed = bound * (format == WireFormat::bf16 ? magnitudes : largest) +
                           magnitudes * static_cast<double>(in.size()) * 0x1p-24;
    ASSERT_LE(std::fabs(got[i] - sum), allowed) << "element " << i << " of " << got.size();
  }
}

struct Placing {
  const char* name;
  int (*host)(int rank, int n);
};
constexpr Placing kPlacings[] = {{"apart", [](int r, int) { return r; }},
                                 {"halves", [](int r, int n) { return r * 2 / n; }},
                                 {"turns", [](int r, int) { return r % 2; }}};
std::vector<int> hosts_of(const Placing& placing, int n) {
  std::vector<int> hosts;
  for (int r = 0; r < n; ++r) hosts.push_back(placing.host(r, n));
  return hosts;
}

class Rows : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Rows, ::testing::Range(2, 10));

TEST_P(Rows, EqualBitsWithinTheBoundInFewerBytes) {
  const int n = GetParam();
  Group group(n);
  std::vector<size_t> sizes = {0, 1, 255, 256, 257, 16384};
  if (n == 2 || n == 3 || n == 6) sizes.push_back((1 << 18) + 1);
  int runs = 0;
  for (const Placing& placing : kPlacings) {
    const std::vector<int> hosts = hosts_of(placing, n);
    for (const AlgorithmRow& row : algorithm_table()) {
      if (row.collective != Collective::all_reduce || !row.accepts(Where{0, n, 0, hosts})) continue;
      const std::vector<Schedule> all = build_all(row, Where{0, n, 0, hosts});
      const WireProof proof = prove_wire(row.collective, all, hosts);
      if (!proof.equal_bits) continue;
      for (const WireFormat format : {WireFormat::bf16, WireFormat::int8}) {
        for (const size_t count : sizes) {
          if (kSlow && count > 1000 && runs++ % 4 != 0) continue;
          SCOPED_TRACE(
              fmt::format("{} {} as {} x {}", row.name, placing.name, to_string(format), count));
          const Numbers in = inputs(n, count);
          Numbers exact = in, x = in;
          const int segments = count % 2 == 0 ? 1 : 3;
          const size_t before = group.run(all, row.collective, segments, {}, exact);
          const size_t after = group.run(all, row.collective, segments, {format, hosts}, x);
          ASSERT_TRUE(equal_on_all(x));
          expect_within(x[0], in, format, proof.roundings);
          if (count < 16384) continue;
          if (std::string(placing.name) == "apart") {
            const double part = format == WireFormat::bf16 ? 0.5 : 0.26;
            EXPECT_LE(static_cast<double>(after), part * static_cast<double>(before));
          } else {
            EXPECT_LT(after, before);
          }
        }
      }
    }
  }
}

TEST(Rows, OfTheOtherReductions) {
  const int n = 5;
  Group group(n);
  const std::vector<int> hosts = hosts_of(kPlacings[0], n);
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != Collective::reduce || !row.accepts(Where{0, n, 2, hosts})) continue;
    const std::vector<Schedule> all = build_all(row, Where{0, n, 2, hosts});
    const WireProof proof = prove_wire(row.collective, all, hosts);
    for (const WireFormat format : {WireFormat::bf16, WireFormat::int8}) {
      SCOPED_TRACE(fmt::format("{} as {}", row.name, to_string(format)));
      const Numbers in = inputs(n, 20011);
      Numbers x = in;
      group.run(all, row.collective, 2, {format, hosts}, x);
      expect_within(x[2], in, format, proof.roundings);
      for (int r = 0; r < n; ++r) {
        if (r == 2) continue;
        EXPECT_EQ(x[r], in[r]) << "rank " << r << " is not the root";
      }
    }
  }
}

// The rows that large messages need are proved, and none is refused without a reason.
TEST(WireProof, RowsThatEndWithEqualBits) {
  for (int n = 2; n <= 9; ++n) {
    const std::vector<int> hosts = hosts_of(kPlacings[0], n);
    for (const char* name : {"one_shot", "direct", "ring", "halving_doubling", "double_tree"}) {
      const AlgorithmRow* row = find_algorithm(Collective::all_reduce, name);
      EXPECT_TRUE(prove_wire(row->collective, build_all(*row, {0, n, 0, {}}), hosts).equal_bits)
          << name << " " << n;
    }
    const AlgorithmRow* ring = find_algorithm(Collective::all_reduce, "ring");
    const AlgorithmRow* direct = find_algorithm(Collective::all_reduce, "direct");
    EXPECT_EQ(prove_wire(ring->collective, build_all(*ring, {0, n, 0, {}}), hosts).roundings, n);
    EXPECT_EQ(prove_wire(direct->collective, build_all(*direct, {0, n, 0, {}}), hosts).roundings,
              2);
  }
}

// The choice looks at root 0 alone, with every link encoded.
TEST(WireProof, RootsAreRoundedNoMoreOftenThanRootZeroApart) {
  for (int n = 2; n <= 9; ++n) {
    const std::vector<int> apart = hosts_of(kPlacings[0], n);
    for (const Placing& placing : kPlacings) {
      const std::vector<int> hosts = hosts_of(placing, n);
      for (const AlgorithmRow& row : algorithm_table()) {
        if (row.collective != Collective::reduce || !row.accepts(Where{0, n, 0, hosts})) continue;
        const auto roundings = [&](int root, std::span<const int> encoded) {
          return prove_wire(row.collective, build_all(row, {0, n, root, hosts}), encoded).roundings;
        };
        for (int root = 0; root < n; ++root)
          EXPECT_LE(roundings(root, hosts), roundings(0, apart))
              << row.name << " " << placing.name << " " << n << " root " << root;
      }
    }
  }
}

// What it refuses does differ.
TEST(WireProof, RowsThatDoNot) {
  const int n = 3;
  Group group(n);
  const std::vector<int> hosts = hosts_of(kPlacings[0], n);
  const AlgorithmRow* row = find_algorithm(Collective::all_reduce, "recursive_doubling");
  const std::vector<Schedule> all = build_all(*row, {0, n, 0, hosts});
  EXPECT_FALSE(prove_wire(row->collective, all, hosts).equal_bits);
  for (const WireFormat format : {WireFormat::bf16, WireFormat::int8}) {
    Numbers x = inputs(n, 1000);
    group.run(all, row->collective, 1, {format, hosts}, x);
    EXPECT_FALSE(equal_on_all(x));
  }
}

// A sum in the scratch that crosses hosts, and is then used by its sender, too.
TEST(WireProof, ScratchIsRoundedBeforeItIsUsed) {
  const std::vector<int> hosts = {0, 1};
  const std::vector<Schedule> all = {
      parse_schedule("schedule rank 0 of 2 chunks 1 scratch 0\n"
                     "copy [1] <- [0]\nrecv_reduce 1 [1]\nsend 1 [1]\ncopy [0] <- [1]"),
      parse_schedule("schedule rank 1 of 2 chunks 1\nsend 0 [0]\nrecv 0 [0]")};
  EXPECT_TRUE(prove_wire(Collective::all_reduce, all, hosts).equal_bits);
  Group group(2);
  for (const WireFormat format : {WireFormat::bf16, WireFormat::int8}) {
    Numbers x = inputs(2, 1000);
    group.run(all, Collective::all_reduce, 1, {format, hosts}, x);
    EXPECT_TRUE(equal_on_all(x));
  }
}

TEST(WireProof, NothingIsEncodedOnOneHost) {
  const int n = 4;
  const std::vector<int> together(n, 0);
  for (const AlgorithmRow& row : algorithm_table()) {
    if (!reduces(row.collective) || !row.accepts(n)) continue;
    const WireProof proof = prove_wire(row.collective, build_all(row, {0, n, 0, {}}), together);
    EXPECT_TRUE(proof.equal_bits);
    EXPECT_EQ(proof.roundings, 0) << row.name;
  }
}

// What an error becomes on its way through a group is still an error on every rank.
TEST(Rows, SpecialsArriveEverywhere) {
  const int n = 4;
  Group group(n);
  const std::vector<int> hosts = hosts_of(kPlacings[0], n);
  for (const char* name : {"direct", "ring", "halving_doubling"}) {
    const AlgorithmRow* row = find_algorithm(Collective::all_reduce, name);
    const std::vector<Schedule> all = build_all(*row, {0, n, 0, hosts});
    for (const WireFormat format : {WireFormat::bf16, WireFormat::int8}) {
      for (const float special : {std::nanf(""), HUGE_VALF}) {
        Numbers x(n, std::vector<float>(5000, 1.0f));
        x[1][4321] = special;
        group.run(all, row->collective, 1, {format, hosts}, x);
        for (int r = 0; r < n; ++r) {
          EXPECT_FALSE(std::isfinite(x[r][4321])) << name << " rank " << r;
          EXPECT_NEAR(x[r][0], 4, 1e-3) << name << " rank " << r;
        }
      }
    }
  }
}

// The places where messages are encoded are used again, and never before they are free.
TEST(WirePlan, StagesManySegmentsInLittleRoom) {
  const std::vector<int> hosts = {0, 1};
  const AlgorithmRow* row = find_algorithm(Collective::all_reduce, "exchange");
  const Schedule schedule =
      with_roundings(row->build({0, 2, 0, hosts}), Collective::all_reduce, hosts);
  CollectiveArgs args;
  args.collective = Collective::all_reduce;
  args.type = DataType::float32;
  args.count = size_t{4} << 20;
  const auto plan =
      make_plan(schedule, args, "exchange", 32, Protocol::queued, {WireFormat::bf16, hosts});
  const auto exact = make_plan(schedule, args, "exchange", 32);
  EXPECT_LT(plan->memory.scratch_bytes, exact->memory.scratch_bytes + (size_t{1} << 20) + 4096);
  const auto& sends = plan->peers[0].sends;
  ASSERT_EQ(sends.size(), 32u);
  for (size_t k = 0; k < sends.size(); ++k) {
    const BoundStep& send = plan->steps[sends[k]];
    EXPECT_LE(send.staging.offset + send.message_bytes, plan->memory.scratch_bytes);
    for (size_t j = static_cast<size_t>(send.staged_after); j < k; ++j) {
      const BoundStep& old = plan->steps[sends[j]];
      EXPECT_TRUE(old.staging.offset + old.message_bytes <= send.staging.offset ||
                  send.staging.offset + send.message_bytes <= old.staging.offset)
          << k << " lies over " << j;
    }
  }
}

}  // namespace
}  // namespace ringwood::testing
