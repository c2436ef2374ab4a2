// What nccl-tests 2.19.6 writes, field by field: the table on standard output, and its JSON (-J).
//
// Parsers depend on the text: the order and the width of the columns, the sentences of the head and
// the foot. `#  Rank` lines name a rank's process, host and place on it, and the processor where
// nccl-tests has the GPU. Thread safety: none.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/perf/nccl_tests/nccl_trial.h"

namespace ringwood::tools {

struct NcclRank {
  int rank = 0, pid = 0, device = 0;
  std::string host, processor;
};

struct NcclHead {
  std::string program;  // "all_reduce_perf"
  std::vector<std::string> arguments;
  std::vector<NcclRank> ranks;
  size_t reduced_bytes = 0;  // the largest size that memory is enough for; 0: all are
};

struct NcclLine {
  size_t bytes = 0, count = 0;
  std::string type, op;
  int root = -1;
};

class NcclTestsReport final {
 public:
  // Writes the head. A JSON file is never overwritten: FILE.0, FILE.1, ... are tried, as there.
  NcclTestsReport(NcclHead head, const NcclTestsOptions& options);

  void begin(const NcclLine& line);
  void add(const NcclSide& side, bool in_place);  // out of place first
  void end_line();
  // The foot. False if a result was wrong or the bandwidth is below 0.9 of what was demanded.
  bool end();

 private:
  nlohmann::ordered_json open_json();  // what its head begins with
  void write_ranks(nlohmann::ordered_json head);
  void begin_json(const nlohmann::ordered_json& head);
  void write_column_heads() const;
  nlohmann::ordered_json json_of(const NcclSide& side) const;
  nlohmann::ordered_json per_iteration(const NcclSide& side) const;

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const NcclHead head_;
  const NcclTestsOptions options_;
  std::unique_ptr<std::FILE, Close> file_;
  nlohmann::ordered_json line_;
  double bus_bw_ = 0;
  int64_t lines_ = 0;  // in the file
  int sides_ = 0, errors_ = 0;
};

}  // namespace ringwood::tools
