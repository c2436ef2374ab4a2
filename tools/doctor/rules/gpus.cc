// GPUs: the driver, and what they reach each other and the cards by.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <set>
#include <utility>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

constexpr size_t kMaxPairs = 8;  // in a sentence

std::string name_of(const Gpu& gpu) { return fmt::format("GPU {} ({})", gpu.index, gpu.pci); }

// GPUs on the PCI bus that the driver does not list, and how many of those are missed.
struct Lost {
  size_t count = 0;
  std::vector<std::string> among;
};
Lost lost_gpus(const Snapshot& snapshot) {
  Lost lost;
  std::set<std::string> listed;
  bool bound = false;  // whether it is known which driver a card has
  for (const Gpu& gpu : snapshot.gpus) {
    listed.insert(gpu.pci);
    const PciDevice* device = find_pci(snapshot, gpu.pci);
    bound = bound || (device != nullptr && device->driver == "nvidia");
  }
  if (listed.empty()) return lost;
  size_t hidden = 0;
  for (const PciDevice* device : gpus(snapshot)) {
    // Another driver, such as vfio-pci, gives a card to a virtual machine.
    const bool own = device->driver.empty() || device->driver == "nvidia";
    if (!own || !is_nvidia(device) || listed.contains(device->address)) continue;
    lost.among.push_back(device->address);
    // The driver has this one, and may keep it from the process's container or job.
    if (!bound || !device->driver.empty()) ++hidden;
  }
  const int permitted = snapshot.system.gpus_permitted.value_or(INT_MAX);
  const auto used = static_cast<size_t>(std::max(0, permitted));
  lost.count = lost.among.size() - hidden;
  if (used > listed.size()) lost.count += std::min(hidden, used - listed.size());
  return lost;
}

void look_driver(const Snapshot& snapshot, Sink& sink) {
  if (!snapshot.system.gpu_fault.empty())
    sink.add(snapshot.host, fmt::format("nvidia-smi: {}", snapshot.system.gpu_fault),
             {"dmesg | grep -E 'NVRM|Xid'  # then load the driver anew, or reboot"});
  const Lost lost = lost_gpus(snapshot);
  if (lost.count > 0 && snapshot.system.gpu_fault.empty())
    sink.add(
        snapshot.host,
        fmt::format("nvidia-smi lists {} of {} GPUs; missing {} {}", snapshot.gpus.size(),
                    snapshot.gpus.size() + lost.count,
                    lost.count < lost.among.size() ? "among" : "is", fmt::join(lost.among, ", ")),
        {"dmesg | grep -E 'NVRM|Xid'  # Xid 79: the GPU has fallen off the bus; reboot"});
}

// With how many others it has NVLinks: one by a bridge, several by a switch or a mesh.
size_t neighbours(const Gpu& gpu) {
  return static_cast<size_t>(
      std::count_if(gpu.paths.begin(), gpu.paths.end(),
                    [](const auto& path) { return begins_with(path.second, "NV"); }));
}

void look_nvlinks(const Snapshot& snapshot, Sink& sink) {
  for (const Gpu& gpu : snapshot.gpus) {
    const Gpu* best = nullptr;
    size_t most = 0;
    for (const Gpu& other : snapshot.gpus) {
      if (other.model != gpu.model || !other.nvlinks_up) continue;
      most = std::max(most, neighbours(other));
      if (best == nullptr || *other.nvlinks_up > *best->nvlinks_up) best = &other;
    }
    if (best == nullptr || !gpu.nvlinks_up || *gpu.nvlinks_up >= *best->nvlinks_up) continue;
    // Of cards that bridges join in pairs, one may well have no bridge.
    const bool bridge = *gpu.nvlinks_up == 0 && most < 2;
    sink.add(bridge ? Severity::note : Severity::warning, snapshot.host,
             fmt::format("{} has {} NVLinks active, GPU {} has {}", name_of(gpu), *gpu.nvlinks_up,
                         best->index, *best->nvlinks_up),
             {fmt::format("nvidia-smi nvlink -s -i {}; nvidia-smi nvlink -e -i {}", gpu.index,
                          gpu.index)});
  }
}

const char* meaning_of(const std::string& access) {
  return access == "CNS"   ? "chipset not supported"
         : access == "GNS" ? "GPU not supported"
         : access == "TNS" ? "topology not supported"
         : access == "DR"  ? "disabled by a setting of the driver"
                           : "not supported";
}

void look_peers(const Snapshot& snapshot, Sink& sink) {
  std::map<std::string, std::set<std::pair<int64_t, int64_t>>> refused;  // by the reason
  bool some = false;
  for (const Gpu& gpu : snapshot.gpus) {
    for (const auto& [name, access] : gpu.peers) {
      some = some || access == "OK";
      const auto peer = begins_with(name, "GPU") ? leading_number(name.substr(3)) : std::nullopt;
      if (access != "OK" && peer) refused[access].insert(std::minmax<int64_t>(gpu.index, *peer));
    }
  }
  if (refused.empty()) return;
  std::vector<std::string> parts;
  bool hardware = !some;  // these cards cannot, wherever they are
  for (const auto& [access, pairs] : refused) {
    hardware = hardware && (access == "GNS" || access == "NS");
    std::vector<std::string> named;
    for (const auto& [one, other] : pairs)
      if (named.size() < kMaxPairs) named.push_back(fmt::format("GPU{}-GPU{}", one, other));
    if (pairs.size() > kMaxPairs) named.push_back(fmt::format("{} more", pairs.size() - kMaxPairs));
    parts.push_back(fmt::format("{} ({}): {}", access, meaning_of(access), fmt::join(named, ", ")));
  }
  sink.add(hardware ? Severity::note : Severity::warning, snapshot.host,
           fmt::format("{} reach each other's memory: {}", some ? "some GPUs do not" : "no GPUs",
                       fmt::join(parts, "; ")),
           {"nvidia-smi topo -p2p r  # see also gpu-acs and iommu-translating"});
}

void look_cards(const Snapshot& snapshot, Sink& sink) {
  std::set<std::string> cards;
  for (const RdmaPort* port : rails(snapshot)) cards.insert(port->device);
  std::vector<std::string> far;
  bool near = false;
  for (const Gpu& gpu : snapshot.gpus) {
    size_t known = 0, across = 0;
    for (const auto& [name, path] : gpu.paths) {
      if (!cards.contains(name)) continue;
      ++known;
      if (path == "SYS") ++across;
    }
    near = near || across < known;
    if (known > 0 && across == known) far.push_back(name_of(gpu));
  }
  if (near && !far.empty())
    sink.add(snapshot.host,
             fmt::format("every RDMA card is at the other processor for {}; other GPUs have one "
                         "at theirs",
                         fmt::join(far, ", ")),
             {"nvidia-smi topo -m"});
}

void look_ecc(const Snapshot& snapshot, Sink& sink) {
  for (const Gpu& gpu : snapshot.gpus)
    if (gpu.ecc_errors.value_or(0) > 0)
      sink.add(
          snapshot.host,
          fmt::format("{} counts {} uncorrected ECC {} since its driver was loaded", name_of(gpu),
                      *gpu.ecc_errors, *gpu.ecc_errors == 1 ? "error" : "errors"),
          {fmt::format("nvidia-smi -q -d ECC,ROW_REMAPPER -i {}", gpu.index)});
}

void compare(const Snapshots& all, const std::string& what, Sink& sink,
             const std::function<std::string(const Snapshot&)>& value) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Snapshot& one : all) values.emplace_back(one.host, value(one));
  if (const auto odd = odd_ones(values))
    sink.add(hosts_of(*odd), fmt::format("{}: {}", what, print_odd(*odd)));
}

// What all GPUs of a host have, "A100, H100"; "" is unknown.
std::string all_of(const Snapshot& one, std::string Gpu::*member) {
  std::set<std::string> values;
  for (const Gpu& gpu : one.gpus) values.insert(gpu.*member);
  return fmt::format("{}", fmt::join(values, ", "));
}

void compare_gpus(const Snapshots& all, Sink& sink) {
  // Of NVIDIA's GPUs a job may have some only; of others the bus tells.
  const bool listed = std::all_of(all.begin(), all.end(), [](const Snapshot& one) {
    return !one.gpus.empty() || gpus(one).empty();
  });
  compare(all, "number of GPUs", sink, [&](const Snapshot& one) -> std::string {
    if (one.pci.empty()) return "";
    return std::to_string(listed ? one.gpus.size() + lost_gpus(one).count : gpus(one).size());
  });
  compare(all, "GPUs", sink, [](const Snapshot& one) { return all_of(one, &Gpu::model); });
  compare(all, "driver", sink, [](const Snapshot& one) { return all_of(one, &Gpu::version); });
  compare(all, "active NVLinks of a GPU", sink, [](const Snapshot& one) -> std::string {
    int most = -1;
    for (const Gpu& gpu : one.gpus) most = std::max(most, gpu.nvlinks_up.value_or(-1));
    return most < 0 ? "" : std::to_string(most);
  });
}

constexpr Rule kRules[] = {
    {.id = "gpu-driver",
     .severity = Severity::error,
     .title = "NVIDIA's driver does not answer, or lacks a GPU that is on the PCI bus",
     .why = "A driver that is not loaded, is of another version than its libraries since an "
            "update, or has lost a GPU (Xid 79, \"fallen off the bus\"). CUDA fails on this host, "
            "or sees fewer GPUs than it has ranks.",
     .fix = "look for NVRM and Xid in dmesg; load the driver anew or reboot, then reseat the GPU",
     .where = Where::gpu,
     .needs = {"gpu-driver", "pci"},
     .look = look_driver},
    {.id = "gpu-ecc",
     .severity = Severity::error,
     .title = "a GPU counts memory errors that could not be corrected",
     .why = "What it computed may be wrong, and processes that use the page are ended (Xid 48, 63, "
            "94, 95). Counts are since the driver was loaded.",
     .fix =
         "reset the GPU or reboot, so that bad rows are replaced; exchange it if it counts again",
     .where = Where::gpu,
     .needs = {"gpu-driver", "gpu-list", "gpu-ecc"},
     .look = look_ecc},
    {.id = "gpu-nvlink-down",
     .severity = Severity::warning,
     .title = "a GPU has fewer active NVLinks than others of this host",
     .why = "Every ring and tree over the GPUs is as slow as its slowest link; without any NVLink "
            "data go over PCI. A bridge that is missing or loose, the fabric manager, or a "
            "broken link is the cause.",
     .fix = "look for Xid 74 and 149 in dmesg, and at nvidia-fabricmanager; reset the GPUs",
     .where = Where::gpu,
     .needs = {"gpu-driver", "gpu-list", "gpu-nvlink"},
     .look = look_nvlinks},
    {.id = "gpu-peer-access",
     .severity = Severity::warning,
     .title = "GPUs of this host cannot access each other's memory",
     .why =
         "Data between them are copied through host memory: half the bandwidth at most, and "
         "several times the latency. The link between processors, access control (ACS), an IOMMU "
         "or a hypervisor prevent it; of cards that can never do it this is a note.",
     .fix = "put GPUs of a job below one processor or switch; turn ACS and the IOMMU's translation "
            "off",
     .where = Where::gpu,
     .needs = {"gpu-driver", "gpu-list", "gpu-peer-access"},
     .look = look_peers},
    {.id = "gpu-nic-far",
     .severity = Severity::warning,
     .title = "a GPU reaches all RDMA cards only across the link between processors",
     .why = "Other GPUs of the host have a card at their own processor. Direct access of a card to "
            "such a GPU is slow, or is not used at all.",
     .fix = "put cards below both processors, or name cards of both (RINGWOOD_VERBS_DEVICES)",
     .where = Where::gpu,
     .needs = {"gpu-driver", "gpu-list", "gpu-topology"},
     .look = look_cards},
    {.id = "hosts-gpus",
     .severity = Severity::warning,
     .title = "number, kind, driver or NVLinks of GPUs differ between hosts",
     .why = "A GPU that is lost, or a host of another kind: all wait for the slowest GPU, and "
            "drivers of different versions may choose differently.",
     .fix = "one kind of host and one driver for a job",
     .where = Where::gpu,
     .needs = {"gpu-driver", "gpu-list", "gpu-nvlink"},
     .compare = compare_gpus},
};

}  // namespace

std::span<const Rule> gpu_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
