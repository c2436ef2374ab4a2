// Proofs of large groups by small ones, against those of all ranks.
#include "collectives/tuner/choice/row_proofs.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ringwood {
namespace {

std::vector<MachineModel> groups() {
  std::vector<MachineModel> all;
  for (const auto& [hosts, k] :
       {std::pair{12, 8}, {16, 6}, {9, 9}, {96, 1}, {81, 1}, {1, 72}, {21, 8}, {9, 16}, {150, 1}}) {
    all.emplace_back();
    for (int r = 0; r < hosts * k; ++r) all.back().hosts.push_back(r / k);
  }
  return all;
}

std::vector<Schedule> of_all_ranks(const AlgorithmRow& row, const Placement& on) {
  std::vector<Schedule> all;
  for (int r = 0; r < on.n; ++r) all.push_back(row.build(on.where(r)));
  return all;
}

TEST(RowProofs, SiblingsResembleTheirGroups) {
  for (const MachineModel& machine : groups()) {
    Siblings siblings(machine, static_cast<int>(machine.hosts.size()));
    const SharedPlacement on = proof_sibling(siblings);
    EXPECT_LE(on->n, kMaxProved);
    EXPECT_GE(on->n, kMaxProved / 3);
    EXPECT_TRUE(on->regular());
    EXPECT_EQ(on->hosts.count() % 2, siblings.whole()->hosts.count() % 2);
    EXPECT_EQ(on->hosts.count() == 1, siblings.whole()->hosts.count() == 1);
  }
}

TEST(RowProofs, OfSiblingsAreValidForTheirGroups) {
  int proved = 0, once = 0;
  for (const MachineModel& machine : groups()) {
    const int n = static_cast<int>(machine.hosts.size());
    Siblings siblings(machine, n);
    const Placement& whole = *siblings.whole();
    for (const AlgorithmRow& row : algorithm_table()) {
      if (!reduces(row.collective) || !row.accepts(whole.where(0))) continue;
      const auto what = ::testing::Message()
                        << to_string(row.collective) << " " << row.name << ", " << n << " ranks on "
                        << whole.hosts.count() << " hosts";
      const std::vector<Schedule> all = of_all_ranks(row, whole);
      const int rounded = sum_roundings(row, siblings), known = sum_roundings(all);
      EXPECT_EQ(rounded == 1, known == 1) << what;
      EXPECT_GE(rounded, known) << what;
      EXPECT_LE(rounded, 3 * known + 2) << what;
      once += known == 1;
      const WireProof of_sibling = wire_proof(row, siblings);
      if (!of_sibling.equal_bits) continue;  // it is not encoded
      std::vector<int> host = machine.hosts;
      if (has_root(row.collective)) std::iota(host.begin(), host.end(), 0);
      const WireProof of_all = prove_wire(row.collective, all, host);
      EXPECT_TRUE(of_all.equal_bits) << what;
      EXPECT_GE(of_sibling.roundings, of_all.roundings) << what;
      EXPECT_LE(of_sibling.roundings, 3 * of_all.roundings + 2) << what;
      ++proved;
    }
  }
  EXPECT_GT(proved, 40);
  EXPECT_GT(once, 10);
}

}  // namespace
}  // namespace ringwood
