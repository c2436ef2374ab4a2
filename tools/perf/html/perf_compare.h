// Earlier results, of this or of other libraries, that a report shows beside new ones.
#pragma once

#include <string>
#include <vector>

namespace ringwood::tools {

// What was measured. Of what a file does not say: "", and -1, which match all.
struct Measured {
  std::string collective, dtype, op;
  int root = -1;
  auto operator<=>(const Measured&) const = default;
};
inline bool matches(const Measured& earlier, const Measured& now) {
  const auto same = [](const std::string& a, const std::string& b) { return a.empty() || a == b; };
  return earlier.collective == now.collective && same(earlier.dtype, now.dtype) &&
         same(earlier.op, now.op) && (earlier.root < 0 || earlier.root == now.root);
}

// Of one operation, by size in bytes: the quickest, where a file has several algorithms.
struct EarlierResults {
  std::string name;
  Measured of;
  std::vector<double> bytes, time_us, busbw_gbs;
};

// `what`: FILE or NAME=FILE. Read are our JSON, that of nccl-tests (-J; in place), and the
// peers.json of bench/ (of the mode: plain or touched); what other numbers of ranks have measured
// is left out, unless `ranks` is kAnyRanks. Throws Error(invalid_argument) for another file, and
// where nothing is left.
constexpr int kAnyRanks = 0;
std::vector<EarlierResults> read_earlier_results(const std::string& what, int ranks,
                                                 const std::string& mode);

}  // namespace ringwood::tools
