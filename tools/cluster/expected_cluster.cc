#include "tools/cluster/expected_cluster.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "tools/cluster/cluster_file.h"
#include "tools/prediction.h"
#include "tools/shape.h"
#include "tools/simulate/simulate_values.h"

namespace ringwood::tools {
namespace {

// Keys that are for predictions alone.
std::vector<std::string> others(const ClusterFile& known, const CLI::App& predicts) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  };
  for (const CLI::Option* option : predicts.get_options()) {
    const std::string name = option->get_lnames().empty() ? "" : option->get_lnames()[0];
    if (option->count() > 0 && name != "hosts" && name != "rails" && name != "rdma" &&
        name != "nic")
      add(name);
  }
  for (const auto* lines : {&known.left, &known.parameters})
    for (const ClusterFile::Line& line : *lines) add(line.key);
  return names;
}

}  // namespace

doctor::ExpectedCluster read_expected_cluster(const std::string& file) {
  CLI::App predicts;  // as if it had been typed for one
  Shape shape;
  LinkWords links;
  NetworkWords network;
  add_shape(predicts, shape);
  add_links(predicts, links);
  add_network(predicts, network);
  const ClusterFile known = use_cluster(file, predicts);
  try {
    Parameters parameters;
    set_parameters(known, parameters);
    doctor::ExpectedCluster expected;
    if (!shape.hosts.empty()) {
      const std::vector<int> places = places_of(shape);
      expected.hosts = *std::ranges::max_element(places) + 1;
    }
    expected.rails = network.rails;
    expected.rdma = links.rdma;
    if (!links.nic.empty()) expected.nic = parse_rate("nic", links.nic);
    expected.others = others(known, predicts);
    return expected;
  } catch (Error& error) {
    name_cluster(known, error);
    throw;
  }
}

}  // namespace ringwood::tools
