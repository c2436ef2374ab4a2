// Limits and places of the process: memory, files, cores, names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

constexpr int kIpcLock = 14;  // the bit of CAP_IPC_LOCK
constexpr int64_t kMiB = int64_t{1} << 20;
// Queues, rings of 1 MiB per link, and registered buffers of a small job.
constexpr int64_t kMinLocked = 256 * kMiB;
constexpr int64_t kMinShared = 256 * kMiB;
// Below the first one a large job's connections are counted; below the second any job is short.
constexpr int64_t kMinFiles = 4096, kFewFiles = 256;

std::string show_bytes(int64_t bytes) {
  if (bytes < 0) return "unlimited";
  if (bytes < kMiB) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} MiB", bytes >> 20);
}

void look_memlock(const Snapshot& snapshot, Sink& sink) {
  const ProcessState& process = snapshot.process;
  if (!process.memlock_soft || *process.memlock_soft < 0) return;
  const bool has = process.capabilities && (*process.capabilities >> kIpcLock & 1);
  const bool inert = process.user_namespace.value_or(false);  // the kernel asks the first one
  if (has && !inert) return;
  if (*process.memlock_soft >= kMinLocked) return;
  const bool hard =
      process.memlock_hard && (*process.memlock_hard < 0 || *process.memlock_hard >= kMinLocked);
  std::vector<std::string> commands;
  if (hard) commands.emplace_back("ulimit -l unlimited  # in the shell that starts the rank");
  commands.insert(commands.end(),
                  {"printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' "
                   ">/etc/security/limits.d/rdma.conf",
                   "systemctl edit slurmd  # LimitMEMLOCK=infinity; so for every launcher",
                   "# in a container: docker run --ulimit memlock=-1"});
  sink.add(snapshot.host,
           fmt::format("RLIMIT_MEMLOCK is {} (hard {}) for user {}, {}",
                       show_bytes(*process.memlock_soft),
                       process.memlock_hard ? show_bytes(*process.memlock_hard) : "unknown",
                       process.uid ? fmt::to_string(*process.uid) : "?",
                       has ? "with CAP_IPC_LOCK in a user namespace only, where it has no effect"
                           : "without CAP_IPC_LOCK in its effective capabilities"),
           commands);
}

void look_rdma_limit(const Snapshot& snapshot, Sink& sink) {
  for (const auto& [device, limits] : snapshot.process.rdma_limits) {
    for (const std::string& word : words_of(limits)) {
      const size_t equals = word.find('=');
      const auto value =
          equals == word.npos ? std::nullopt : leading_number(word.substr(equals + 1));
      const int64_t least = begins_with(word, "hca_handle") ? 2 : 256;
      if (value && *value < least)
        sink.add(snapshot.host, fmt::format("the control group allows {} on {}", word, device),
                 {"# echo 'DEVICE max' >/sys/fs/cgroup/GROUP/rdma.max"});
    }
  }
}

void look_shm(const Snapshot& snapshot, Sink& sink) {
  const auto bytes = snapshot.system.shm_bytes;
  if (bytes && *bytes < kMinShared)
    sink.add(snapshot.host, fmt::format("/dev/shm has {}", show_bytes(*bytes)),
             {"# in a container: docker run --shm-size=8g, or --ipc=host",
              "mount -o remount,size=8g /dev/shm"});
}

void look_files(const Snapshot& snapshot, Sink& sink) {
  const auto files = snapshot.process.files_soft;
  if (!files || *files < 0 || *files >= kMinFiles) return;
  const auto ranks = knob_number(snapshot, "WORLD_SIZE");
  if (*files >= kFewFiles && ranks.value_or(0) <= *files / 4) return;
  sink.add(
      snapshot.host,
      fmt::format("{} open files{}", *files, ranks ? fmt::format(" for {} ranks", *ranks) : ""),
      {"ulimit -n 65536"});
}

void look_open_files(const Snapshot& snapshot, Sink& sink) {
  const ProcessState& process = snapshot.process;
  const SystemState& system = snapshot.system;
  if (is_nearly_full(process.files_open, process.files_soft))
    sink.add(snapshot.host,
             fmt::format("process {} has {} of at most {} files open", process.pid,
                         *process.files_open, *process.files_soft),
             {fmt::format("prlimit --pid {} --nofile=65536", process.pid)});
  if (is_nearly_full(system.files_open, system.files_max))
    sink.add(snapshot.host,
             fmt::format("all processes have {} of at most {} files open", *system.files_open,
                         *system.files_max),
             {fmt::format("sysctl -w fs.file-max={}",
                          2 * std::min(*system.files_max, int64_t{1} << 40))});
}

void look_cores(const Snapshot& snapshot, Sink& sink) {
  const auto found = snapshot.process.environment.find("LOCAL_WORLD_SIZE");
  if (found == snapshot.process.environment.end() || snapshot.process.cores.empty()) return;
  const auto ranks = leading_number(found->second);
  const size_t cores = snapshot.process.cores.size();
  // Bound to one core, a rank has it for itself.
  if (ranks && cores > 1 && *ranks > static_cast<int64_t>(cores))
    sink.add(snapshot.host, fmt::format("{} ranks may run on {} cores", *ranks, cores));
}

std::set<int> nodes_of(const Snapshot& snapshot, const std::vector<int>& cores) {
  std::set<int> nodes;
  for (const auto& [node, members] : snapshot.system.nodes)
    for (const int core : members)
      if (std::find(cores.begin(), cores.end(), core) != cores.end())
        nodes.insert(static_cast<int>(leading_number(node).value_or(-1)));
  return nodes;
}

// A rank takes the rails near it first, so one near rail is enough; where the environment names the
// devices, each of them counts.
void look_numa_of(const Snapshot& snapshot, const ProcessState& process, Sink& sink) {
  const auto nodes = nodes_of(snapshot, process.cores);
  std::vector<std::string> far;
  std::set<int> wanted;
  bool near = false;
  Snapshot view = snapshot;  // which rails are taken is a matter of this process's environment
  view.process = process;
  for (const RdmaPort* port : rails(view)) {
    const PciDevice* device = find_pci(snapshot, port->pci);
    if (device == nullptr || !device->node) return;  // gaps.h lists it
    if (nodes.contains(*device->node)) {
      near = true;
      continue;
    }
    far.push_back(fmt::format("{} is at node {}", name_of(*port), *device->node));
    wanted.insert(*device->node);
  }
  const bool named = knob_in(view, "RINGWOOD_VERBS_DEVICES").has_value();
  if (far.empty() || (near && !named)) return;
  sink.add(snapshot.host,
           fmt::format("{} may run on node {} only; {}",
                       process.rank ? fmt::format("rank {}", *process.rank) : "the process",
                       fmt::join(nodes, ", "), fmt::join(far, ", ")),
           {fmt::format("numactl --cpunodebind={0} --membind={0} PROGRAM", *wanted.begin())});
}

void look_numa(const Snapshot& snapshot, Sink& sink) {
  if (snapshot.system.nodes.size() < 2) return;
  std::vector<const ProcessState*> all = {&snapshot.process};
  for (const ProcessState& other : snapshot.others) all.push_back(&other);
  for (const ProcessState* process : all)
    if (!process->cores.empty()) look_numa_of(snapshot, *process, sink);
}

void look_name(const Snapshot& snapshot, Sink& sink) {
  const auto& own = snapshot.system.own_addresses;
  const bool loopback = !own.empty() && std::all_of(own.begin(), own.end(), [](const auto& one) {
    return begins_with(one, "127.") || one == "::1";
  });
  const auto master = snapshot.process.environment.find("MASTER_ADDR");
  // A host that is called by its address needs no name.
  const bool matters = master != snapshot.process.environment.end() &&
                       master->second == snapshot.host && !parse_ipv4(master->second + "/32") &&
                       master->second.find(':') == std::string::npos;
  if (loopback && matters)
    sink.add(
        snapshot.host,
        fmt::format("MASTER_ADDR is {}, which means {} here", snapshot.host, fmt::join(own, ", ")),
        {"sed -i '/^127\\.0\\.1\\.1/d' /etc/hosts  # the name must mean an address of the "
         "network"});
}

constexpr Rule kRules[] = {
    {.id = "memlock",
     .severity = Severity::error,
     .title = "memory cannot be locked: RLIMIT_MEMLOCK below 256 MiB without CAP_IPC_LOCK",
     .why = "RDMA locks the memory that it sends from. With a small limit ibv_reg_mr and "
            "ibv_create_qp fail with ENOMEM, and the job falls back to TCP. A capability that a "
            "container grants is not effective for users that are not root, and none is in a user "
            "namespace (a rootless container).",
     .fix = "raise the limit where the rank is started: limits.d, the launcher's service, "
            "--ulimit memlock=-1",
     .where = Where::rdma,
     .needs = {"limits", "capabilities"},
     .look = look_memlock},
    {.id = "rdma-limit",
     .severity = Severity::error,
     .title = "the control group limits RDMA handles or objects",
     .why = "rdma.max of a control group bounds open devices (hca_handle) and queue pairs, regions "
            "and queues (hca_object). Beyond it every call fails with EAGAIN.",
     .fix = "raise rdma.max of the rank's control group",
     .where = Where::rdma,
     .needs = {"rdma-limits", "control-group"},
     .look = look_rdma_limit},
    {.id = "shm-small",
     .severity = Severity::warning,
     .title = "/dev/shm has less than 256 MiB",
     .why = "Data loaders and other libraries put shared memory there; containers have 64 MiB "
            "unless told otherwise. Programs die with SIGBUS when it is full.",
     .fix = "start the container with --shm-size or --ipc=host",
     .needs = {"shm"},
     .look = look_shm},
    {.id = "files-limit",
     .severity = Severity::warning,
     .title = "fewer open files than the ranks' connections may need",
     .why = "A rank holds up to four descriptors for each of its peers.",
     .fix = "raise the limit of open files",
     .needs = {"limits", "environment"},
     .look = look_files},
    {.id = "files-full",
     .severity = Severity::error,
     .title = "nearly all files that may be open are open",
     .why =
         "Each connection, and each file of shared memory, is an open file. Where no more may be "
         "open, groups cannot be made, data loaders fail with \"Too many open files\", and "
         "those who wait for such a rank see a timeout. --pid looks at a running rank.",
     .fix = "raise the limit of the process or of the host, and find who leaves files open",
     .needs = {"limits", "open-files"},
     .look = look_open_files},
    {.id = "cores-shared",
     .severity = Severity::warning,
     .title = "more ranks than cores on a host",
     .why =
         "Ranks that wait for each other on one core take turns: every message costs a change of "
         "process. A container's or launcher's core list is often the cause.",
     .fix = "start fewer ranks, or give the job more cores",
     .needs = {"environment"},
     .look = look_cores},
    {.id = "numa-far",
     .severity = Severity::warning,
     .title = "a process runs on a memory node far from the RDMA cards that it uses",
     .why = "Data cross the link between the processors twice; bandwidth falls by up to half and "
            "latency rises. Of the rails that a process may take one must be near, of those that "
            "RINGWOOD_VERBS_DEVICES (NCCL_IB_HCA) names every one. With --all-hosts each rank of a "
            "host is looked at.",
     .fix = "bind the rank to cores and memory of the card's node",
     .where = Where::rdma,
     .needs = {"numa", "numa-node", "pci"},
     .look = look_numa},
    {.id = "name-loopback",
     .severity = Severity::error,
     .title = "MASTER_ADDR is this host's name, which means a loopback address here",
     .why = "Rank 0 then listens where no other host can reach it.",
     .fix = "let the name mean an address of the network, in /etc/hosts or DNS",
     .needs = {"names", "environment"},
     .look = look_name},
};

}  // namespace

std::span<const Rule> process_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
