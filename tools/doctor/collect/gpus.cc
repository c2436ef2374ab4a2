// GPUs as NVIDIA's driver tells of them: nvidia-smi.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/doctor/collect/collect.h"
#include "tools/doctor/collect/gpu_texts.h"
#include "tools/doctor/collect/kernel.h"
#include "tools/doctor/rules/facts.h"
#include "transports/base/owned_fd.h"

namespace ringwood::tools::doctor {
namespace {

using Words = std::vector<std::string>;

// Where nobody keeps the driver loaded (persistence mode), each question loads it: seconds.
constexpr std::chrono::seconds kDriverTime{10};

const Words kTable = {
    "nvidia-smi",
    "--query-gpu=index,name,pci.bus_id,driver_version,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader,nounits"};

std::optional<std::string> ask(const Tree& tree, const Words& words, std::string& why,
                               ProgramFailure* failure = nullptr) {
  if (tree.live()) return ask_program(words, why, failure, kDriverTime);
  const std::string command = fmt::format("{}", fmt::join(words, " "));
  why = fmt::format("no output of {} in the tree", command);
  return tree.printed(command);
}

// By what it prints, or by the codes that its manual gives.
std::string fault_of(const std::string& text, int code) {
  if (std::string told = parse_gpu_fault(text); !told.empty()) return told;
  return code == 9    ? "it ended with code 9: the driver is not loaded"
         : code == 15 ? "it ended with code 15: a GPU has fallen off the bus"
                      : "";
}

// Devices like /dev/nvidia0 that this process may open: a job's or container's control group often
// keeps some GPUs from it, which nvidia-smi then does not list.
int count_permitted(const Tree& tree) {
  int permitted = 0;
  for (const std::string& name : tree.names("dev")) {
    if (!begins_with(name, "nvidia") || !leading_number(name.substr(6))) continue;
    const std::string path = "/dev/" + name;
    const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() >= 0 || (errno != EPERM && errno != EACCES)) ++permitted;
  }
  return permitted;
}

// False: there is nothing more to ask.
bool read_list(Tree& tree, Snapshot& snapshot) {
  std::string why;
  ProgramFailure failure;
  auto text = ask(tree, kTable, why, &failure);
  if (text) snapshot.gpus = parse_gpu_table(*text);
  if (snapshot.gpus.empty() && !tree.live())
    if (const auto report = tree.printed("nvidia-smi -q")) {
      text = report;
      snapshot.gpus = parse_gpu_report(*report);
    }
  const std::string fault = fault_of(text.value_or(failure.text), failure.code);
  if (tree.live() && (!fault.empty() || snapshot.gpus.size() < gpus(snapshot).size()))
    snapshot.system.gpus_permitted = count_permitted(tree);
  const auto& modules = snapshot.system.modules;
  const bool loaded = std::find(modules.begin(), modules.end(), "nvidia") != modules.end();
  if (snapshot.system.gpus_permitted == 0 && loaded)
    tree.miss("gpu-driver", "", "this process may open no GPU of this host (its container or job)");
  else if (!fault.empty())
    snapshot.system.gpu_fault = fault;
  else if (snapshot.gpus.empty())
    tree.miss("gpu-driver", "", text ? "nvidia-smi lists no GPU that is understood" : why);
  if (!snapshot.system.gpu_fault.empty() && snapshot.gpus.empty())
    tree.miss("gpu-list", "", "nvidia-smi lists no GPU: " + fault);
  return !snapshot.gpus.empty();
}

void read_more(Tree& tree, const char* need, const Words& words,
               bool (*parse)(const std::string&, std::vector<Gpu>&), Snapshot& snapshot) {
  std::string why;
  const auto text = ask(tree, words, why);
  if (!text || !parse(*text, snapshot.gpus))
    tree.miss(
        need, "",
        text ? fmt::format("the output of {} is not understood", fmt::join(words, " ")) : why);
}

}  // namespace

void collect_gpus(Tree& tree, Snapshot& snapshot) {
  const auto cards = gpus(snapshot);
  if (cards.empty()) return;
  if (std::none_of(cards.begin(), cards.end(), is_nvidia)) {
    tree.miss("gpu-driver", "", "only NVIDIA's driver is asked, and these GPUs are others");
    return;
  }
  if (!read_list(tree, snapshot)) return;
  read_more(tree, "gpu-nvlink", {"nvidia-smi", "nvlink", "-s"}, parse_nvlinks, snapshot);
  if (std::none_of(snapshot.gpus.begin(), snapshot.gpus.end(),
                   [](const Gpu& gpu) { return gpu.ecc_errors.has_value(); }))
    tree.miss("gpu-ecc", "", "no GPU counts ECC errors: ECC is off, or the cards have none");
  if (snapshot.gpus.size() < 2) return;
  read_more(tree, "gpu-topology", {"nvidia-smi", "topo", "-m"}, parse_topology, snapshot);
  read_more(tree, "gpu-peer-access", {"nvidia-smi", "topo", "-p2p", "r"}, parse_peers, snapshot);
}

}  // namespace ringwood::tools::doctor
