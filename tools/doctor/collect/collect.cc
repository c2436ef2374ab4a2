#include "tools/doctor/collect/collect.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tools/doctor/collect/kernel.h"
#include "tools/doctor/collect/texts.h"
#include "transports/base/error.h"
#include "transports/base/host.h"
#include "transports/bootstrap/net.h"
#include "transports/verbs/library/library.h"

namespace ringwood::tools::doctor {
namespace {

constexpr size_t kMaxVariables = 4096;

constexpr std::array kModules = {"amdgpu",    "bnxt_re",        "gdrdrv",      "ib_core",
                                 "ib_uverbs", "irdma",          "mlx5_ib",     "mlx5_core",
                                 "nvidia",    "nvidia_peermem", "nv_peer_mem", "rdma_rxe"};

// Only what steers communication: an environment also contains secrets.
bool is_of_communication(const std::string& name) {
  constexpr std::array kBeginnings = {"RINGWOOD_", "NCCL_",   "RCCL_",       "UCX_",
                                      "GLOO_",     "MASTER_", "LOCAL_WORLD", "LOCAL_RANK"};
  return name == "RANK" || name == "WORLD_SIZE" ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](const char* one) { return begins_with(name, one); });
}

std::optional<int64_t> limit_of(const std::string& word) {
  return word == "unlimited" ? std::optional<int64_t>(-1) : leading_number(word);
}

void read_limits(const std::string& text, ProcessState& process) {
  for (const std::string& line : lines_of(text)) {
    const bool memory = begins_with(line, "Max locked memory");
    if (!memory && !begins_with(line, "Max open files")) continue;
    const auto words = words_of(line.substr(memory ? 17 : 14));
    if (words.size() < 2) continue;
    (memory ? process.memlock_soft : process.files_soft) = limit_of(words[0]);
    if (memory) process.memlock_hard = limit_of(words[1]);
  }
}

void read_status(const std::string& text, ProcessState& process) {
  const auto capabilities = parse_field(text, "CapEff");
  if (!capabilities.empty()) {
    // All 64 bits may be set.
    process.capabilities = std::strtoull(capabilities.c_str(), nullptr, 16);
  }
  const auto users = words_of(parse_field(text, "Uid"));
  if (users.size() > 1)
    if (const auto uid = leading_number(users[1])) process.uid = static_cast<int>(*uid);
  process.cores = parse_cores(parse_field(text, "Cpus_allowed_list"));
  if (const auto pid = leading_number(parse_field(text, "Pid"))) process.pid = *pid;
}

void read_environment(const std::string& text, ProcessState& process) {
  for (size_t at = 0; at < text.size() && process.environment.size() < kMaxVariables;) {
    const size_t end = std::min(text.find('\0', at), text.size());
    const std::string variable = text.substr(at, end - at);
    const size_t equals = variable.find('=');
    if (equals != variable.npos && is_of_communication(variable.substr(0, equals)))
      process.environment[variable.substr(0, equals)] = variable.substr(equals + 1);
    at = end + 1;
  }
}

// From the options of its mount; nullopt: it has no limit of its own, or is not there.
std::optional<int64_t> shm_of_mounts(const std::string& mounts) {
  for (const std::string& line : lines_of(mounts)) {
    const auto words = words_of(line);
    if (words.size() < 4 || words[1] != "/dev/shm") continue;
    const size_t at = words[3].find("size=");
    if (at == words[3].npos) continue;
    const auto value = leading_number(words[3].substr(at + 5));
    const size_t unit = words[3].find_first_not_of("0123456789", at + 5);
    if (!value || *value > (int64_t{1} << 40)) continue;
    const char letter = unit == words[3].npos ? ' ' : words[3][unit];
    return *value << (letter == 'k' ? 10 : letter == 'm' ? 20 : letter == 'g' ? 30 : 0);
  }
  return std::nullopt;
}

void read_shm(Tree& tree, SystemState& system) {
  struct statvfs state {};
  if (!tree.live()) {
    const auto mounts = tree.needed("shm", "", "proc/mounts", true);
    if (mounts) system.shm_bytes = shm_of_mounts(*mounts);
  } else if (::statvfs("/dev/shm", &state) == 0) {
    system.shm_bytes = static_cast<int64_t>(state.f_blocks * state.f_frsize);
  } else {
    tree.miss("shm", "", system_message("/dev/shm"));
  }
}

// "3072 0 922337": in use, always 0, at most.
void read_open_files(Tree& tree, SystemState& system) {
  const auto words =
      words_of(tree.needed("open-files", "", "proc/sys/fs/file-nr", true).value_or(""));
  if (words.size() != 3) return;
  system.files_open = leading_number(words[0]);
  system.files_max = leading_number(words[2]);
}

void read_routes(Tree& tree, const std::string& process, SystemState& system) {
  const auto table = tree.needed("routes", "", "proc/" + process + "/net/route", true);
  const auto lines = lines_of(table.value_or(""));
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto words = words_of(lines[i]);
    if (words.size() < 8) continue;
    const auto destination = leading_number(words[1], 16), mask = leading_number(words[7], 16);
    const auto flags = leading_number(words[3], 16);
    if (!destination || !mask || !flags || !(*flags & 1)) continue;
    system.routes.push_back({words[0], __builtin_bswap32(static_cast<uint32_t>(*destination)),
                             __builtin_bswap32(static_cast<uint32_t>(*mask)),
                             words[2] == "00000000" ? "" : words[2]});
  }
}

void read_policy_rules(Tree& tree, SystemState& system) {
  std::string why;
  if (tree.live())
    system.policy_rules = ask_policy_rules(why);
  else if (const auto text = tree.printed_first(
               {"ip -4 rule list", "ip -4 rule", "ip rule list", "ip rule show", "ip rule"}))
    system.policy_rules = parse_policy_rules(*text);
}

void read_own_name(Tree& tree, Snapshot& snapshot) {
  std::string why;
  if (tree.live()) {
    snapshot.system.own_addresses = ask_name(snapshot.host, why);
    if (!why.empty()) tree.miss("names", "", fmt::format("{}: {}", snapshot.host, why));
    return;
  }
  for (const std::string& line :
       lines_of(tree.needed("names", "", "etc/hosts", true).value_or(""))) {
    const auto words = words_of(line.substr(0, line.find('#')));
    if (std::find(words.begin(), words.end(), snapshot.host) > words.begin() &&
        std::find(words.begin(), words.end(), snapshot.host) != words.end())
      snapshot.system.own_addresses.push_back(words[0]);
  }
}

void read_firewall(Tree& tree, SystemState& system) {
  std::string why, why_too;
  const auto ask = [&](const std::vector<std::string>& words, std::string& reason,
                       std::initializer_list<const char*> printed) {
    return tree.live() ? ask_program(words, reason) : tree.printed_first(printed);
  };
  auto rules = ask({"nft", "-n", "list", "ruleset"}, why,
                   {"nft list ruleset", "nft -a list ruleset", "nft -n list ruleset"});
  if (!rules) rules = ask({"iptables-save"}, why_too, {"iptables-save"});
  if (rules)
    system.firewall = parse_firewall(*rules);
  else
    tree.miss("firewall", "",
              tree.live() ? why + "; " + why_too : "no output of nft or iptables-save in the tree");
}

void read_live(const std::string& process, Snapshot& snapshot) {
  std::string why;
  snapshot.system.verbs_library = verbs::load(why) != nullptr ? "loaded" : why;
  if (process != "self") return;
  try {
    const std::string master = snapshot.process.environment["MASTER_ADDR"];
    const AddressChoice chosen = choose_local_address(Options::from_environment(), master, true);
    snapshot.system.chosen_address = fmt::format("{} ({})", chosen.host, chosen.reason);
  } catch (const Error& error) {
    snapshot.system.refused_address = error.cause;
  }
  if (snapshot.process.environment["MASTER_ADDR"].empty())
    snapshot.process.environment.erase("MASTER_ADDR");
}

}  // namespace

std::vector<int> parse_cores(const std::string& list) {
  std::vector<int> cores;
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const std::string item = list.substr(at, comma - at);
    const size_t dash = item.find('-');
    const auto first = leading_number(item);
    const auto last = dash == item.npos ? first : leading_number(item.substr(dash + 1));
    if (first && last)
      for (int64_t core = *first; core <= *last && cores.size() < 4096; ++core)
        cores.push_back(static_cast<int>(core));
    at = comma + 1;
  }
  return cores;
}

void collect_process(Tree& tree, const std::string& process, Snapshot& snapshot) {
  const std::string folder = "proc/" + process + "/";
  if (const auto text = tree.needed("limits", "", folder + "limits", true))
    read_limits(*text, snapshot.process);
  if (const auto text = tree.needed("capabilities", "", folder + "status", true))
    read_status(*text, snapshot.process);
  // The first one maps all users to themselves.
  if (const auto map = tree.needed("capabilities", "", folder + "uid_map",
                                   snapshot.process.capabilities.value_or(0) != 0))
    snapshot.process.user_namespace =
        words_of(*map) != std::vector<std::string>{"0", "0", "4294967295"};
  if (const auto text = tree.needed("environment", "", folder + "environ", true))
    read_environment(*text, snapshot.process);
  // This command's own are none of a job's.
  if (!tree.live() || process != "self") snapshot.process.files_open = tree.count(folder + "fd");
  if (tree.live() && process != "self" && !snapshot.process.files_open)
    tree.miss("open-files", "", "another user's process: its files are counted as root only");
  for (const std::string& folder : group_folders(tree, process, "rdma")) {
    const auto text = tree.needed("rdma-limits", "", folder + "/rdma.max", false);
    if (!text) continue;
    for (const std::string& line : lines_of(*text))
      snapshot.process.rdma_limits[line.substr(0, line.find(' '))] =
          line.substr(std::min(line.find(' ') + 1, line.size()));
    break;
  }
}

void collect_system(Tree& tree, const std::string& process, Snapshot& snapshot) {
  SystemState& system = snapshot.system;
  system.version = RINGWOOD_VERSION;
  system.kernel = tree.text("proc/sys/kernel/osrelease").value_or("");
  system.uptime_s = std::atof(tree.text("proc/uptime").value_or("0").c_str());
  for (const std::string& line : lines_of(tree.text("proc/cpuinfo").value_or("")))
    if (begins_with(line, "flags") && line.find(" hypervisor") != line.npos)
      system.virtual_machine = true;
  system.command_line = tree.needed("command-line", "", "proc/cmdline", true).value_or("");
  for (const char* module : kModules)
    if (tree.exists(fmt::format("sys/module/{}", module))) system.modules.push_back(module);
  for (const std::string& node : tree.names("sys/devices/system/node")) {
    const std::string list = fmt::format("sys/devices/system/node/{}/cpulist", node);
    if (begins_with(node, "node") && tree.exists(list))
      system.nodes[node.substr(4)] = parse_cores(tree.text(list).value_or(""));
  }
  if (system.nodes.empty()) tree.miss("numa", "", "the kernel tells no memory nodes");
  read_shm(tree, system);
  read_open_files(tree, system);
  read_routes(tree, process, system);
  read_policy_rules(tree, system);
  read_own_name(tree, snapshot);
  read_firewall(tree, system);
  if (tree.live()) read_live(process, snapshot);
}

Snapshot collect(const CollectOptions& options) {
  Tree tree(options.root);
  if (!leading_number(options.process) && options.process != "self")
    throw Error(ErrorCode::invalid_argument, "--pid takes the number of a process");
  if (options.process != "self" && !tree.exists("proc/" + options.process))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no process {}; see ps", options.process));
  Snapshot snapshot;
  if (tree.live()) {
    snapshot.host = host_name();
    snapshot.token = host_token();
  } else {
    for (const char* file : {"etc/hostname", "proc/sys/kernel/hostname"})
      if (snapshot.host.empty()) snapshot.host = tree.text(file).value_or("");
    if (snapshot.host.empty())
      snapshot.host = std::filesystem::path(options.root).filename().string();
    snapshot.token = options.root;
  }
  collect_process(tree, options.process, snapshot);
  collect_system(tree, options.process, snapshot);
  collect_machine(tree, options.process, snapshot);
  collect_ports(tree, snapshot);
  collect_interfaces(tree, snapshot);
  collect_pci(tree, snapshot);
  collect_gpus(tree, snapshot);
  snapshot.gaps = tree.gaps();
  return cleaned(snapshot);
}

}  // namespace ringwood::tools::doctor
