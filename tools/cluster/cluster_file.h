// A cluster in a file: what its hosts, links and switches are, a line for each, in place of the
// options of a command that predicts (`ringwood explain`, `ringwood simulate`).
//
//   # two racks of GPU hosts
//   hosts = 32x8            # a key is the name of an option
//   rails = 8
//   rdma = true
//   leaf = 16
//   slow = host7/rail1=0.5  # what may be given several times has a line each
//   post = 2e-7             # or of a parameter (`ringwood explain` shows all)
//
// Keys stand in any order, and none has to be there; what is typed wins over the file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/prediction.h"
#include "transports/base/error.h"

namespace ringwood::tools {

struct ClusterFile {
  std::string name;  // empty: none
  struct Line {
    int number = 0;
    std::string key, value;
  };
  std::vector<Line> parameters;  // of the machine model
  std::vector<Line> left;        // that this command does not take, but another one does
};

void add_cluster(CLI::App& command, std::string& file);

// Sets the options of a command that has been parsed, but for those that were typed. Throws
// Error(invalid_argument) with the line.
ClusterFile use_cluster(const std::string& file, CLI::App& command);

// Throws likewise.
void set_parameters(const ClusterFile& file, Parameters& parameters);

// Of what was refused later than a line is read: that the options come from a file, too.
void name_cluster(const ClusterFile& file, Error& error);

}  // namespace ringwood::tools
