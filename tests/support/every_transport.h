// All transports of the table, so that a new row joins every suite that iterates them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/verbs_here.h"
#include "transports/link.h"

namespace ringwood::testing {

// Names for options_for() (ranks.h): each transport alone, then "mixed".
inline std::vector<std::string> every_transport() {
  std::vector<std::string> names;
  for (const TransportRow& row : transport_table()) names.emplace_back(row.name);
  names.emplace_back("mixed");
  return names;
}

// Why ranks of one machine cannot use it; "" if they can.
inline std::string absent_here(const std::string& transport) {
  return transport.starts_with("verbs") && !verbs_here() ? "no RDMA device works" : "";
}

// A suite of one of them by name; left out, with the reason, where it cannot be used.
class OnTransport : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = absent_here(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace ringwood::testing
