// `ringwood simulate`: what each algorithm would take on a large, possibly faulty, group of hosts.
// Every rank's messages are simulated on the links of a network (tools/simulation), or, of rows
// with many, the choice's prediction is taken where it knows the network. Starts nothing; measures
// this host's parameters where they are not yet known.
#pragma once

#include <string>
#include <vector>

#include "collectives/tuner/choice/choose.h"
#include "tools/simulation/network.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

struct SimulateOptions {
  ModelQuery query;  // its machine model is `machine`
  size_t bytes = 0;  // as typed: of the whole buffer, or of n blocks
  MachineModel machine;
  int hosts = 1, ranks_per_host = 1;
  NetworkShape shape;
  Faults faults;
  std::vector<std::string> fault_texts;  // as typed
  int seeds = 1;                         // from shape.seed on
  std::string algorithm;                 // "": the sensible ones; "all": each
  int segments = 0;                      // 0: those of the choice
  Options knobs;                         // of the communicator whose choice is marked
  bool every_message = false;            // no row is predicted by the choice instead
  bool json = false;
  bool progress = false;  // also where stderr is not a terminal
  std::string trace;      // file; "": none
  std::string svg;        // likewise
};

// Declares the subcommand. Parsing throws CLI::ParseError or Error(invalid_argument).
void add_simulate_command(CLI::App& app);

}  // namespace ringwood::tools
