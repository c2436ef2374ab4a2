// What `ringwood explain` and `ringwood simulate` are asked to predict, and from which parameters:
// where they come from, and who is where. What cannot be throws Error(invalid_argument).
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/machine/machine_model.h"
#include "tools/shape.h"
#include "tools/simulation/network.h"
#include "transports/base/options.h"

namespace ringwood::tools {

// A collective, as it is typed. One that moves no data needs no bytes.
struct QueryWords {
  std::string collective, bytes, type = "float32", op = "sum";
};
// Among n ranks; in whole blocks, of at least one element each, as `ringwood perf` has them. The
// machine model is not set.
ModelQuery parse_query(const QueryWords& words, int n);
// Of the whole buffer, or of all blocks: as a table has them beside what was typed.
size_t whole_bytes(const ModelQuery& query);

struct Parameters {
  MachineModel machine;
  // Of each one that is not of its default value: "measured", or the file.
  std::string origin;
  // Names of those that were not measured, but are known from the ports' rates.
  std::vector<std::string> priors;
  std::vector<std::string> typed;      // names of those that the user gave
  std::vector<std::string> unknown{};  // to them: of what the user gave, as it was typed
};

// `source`: "host" (measured here or read from the calibration's file, with a network like this
// host's ports), "default", or a file with a
// line that begins like print(MachineModel): one that save() wrote, or a calibration or network
// file of the cache.
Parameters read_parameters_from(const std::string& source, const Options& options);
bool is_file(const std::string& source);
void save_parameters(const std::string& file, const MachineModel& machine);

// The links between hosts and between GPUs, as they are typed, in place of the parameters' own.
struct LinkWords {
  std::string nic;    // bytes/s; "": as the parameters have it
  bool rdma = false;  // whatever the parameters have
  int island = 0;     // ranks whose GPUs reach each other; 0: as the parameters have it
  std::string island_rate = "150G", island_latency = "3us";
};
void add_links(CLI::App& command, LinkWords& words);
// Takes the priors of such cards (use_rdma_prior()) where the parameters' links are sockets. An
// island is a memory node of its ranks' hosts, which are set.
void use_links(const LinkWords& words, Parameters& parameters);

// The switches between hosts, and their ports, as they are typed.
struct NetworkWords {
  int rails = 0;                    // ports of each host; 0: as the parameters have it
  std::string rail_use;             // "striped", "rank"; "": as the parameters have it
  int leaf = 0;                     // hosts of a leaf switch; 0: a core without limits
  int uplinks = 0;                  // of a leaf for each rail; 0: as many as hosts
  double oversubscription = 0;      // in place of uplinks
  int pod = 0;                      // leaves of a pod; 0: all have the same spines
  int pod_uplinks = 0;              // of a pod for each rail; 0: as many as its leaves have
  double pod_oversubscription = 0;  // in place of pod_uplinks
  int queue_pairs = 0;              // of two ranks on each rail; 0: as the knob says, or 1
  std::string routing = "hashed";   // or "adaptive"
  std::vector<std::string> slow;    // ports, as add_slow_port() reads them
};
void add_network(CLI::App& command, NetworkWords& words);
// Of the switches: the rest of a shape is in the parameters.
NetworkShape switches_of(const NetworkWords& words);
// Rails and their use.
void use_rails(const NetworkWords& words, Parameters& parameters);
// Between hosts of different leaves, of which there are some.
PathParameters far_path(const NetworkParameters& net, const NetworkShape& shape);
// What the choice knows of leaves and slow ports: that far hosts are limited by uplinks, and hosts
// that are not like the others. The hosts and rails are set.
void use_network(const NetworkWords& words, Parameters& parameters);

// By rank: its memory node, with up to `nodes` on each host. `hosts` is in order.
std::vector<int> nodes_of(const std::vector<int>& hosts, int nodes);

// `typed`, or those of a `file`; else this host's, but where ranks are on several hosts or nothing
// was measured, which is a cluster that is thought of, one for each rank at least. The hosts are
// set.
void set_cores(MachineModel& machine, int typed, bool file, bool measured);

// "2 cores each", or of several hosts that share them "2 cores for 4 hosts".
std::string cores_of(const MachineModel& machine);

// Every parameter but for the places: "net_latency=3.8e-06", with its origin.
struct ParameterLine {
  std::string name, value, origin;  // "default", "prior", "typed", or Parameters::origin
};
std::vector<ParameterLine> lines_of(const Parameters& parameters);

}  // namespace ringwood::tools
