// PCI: links that are slower than they could be, and what keeps cards and GPUs apart.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

constexpr int kRedirecting = 0x1d;  // SrcValid, ReqRedir, CmpltRedir, UpstreamFwd

// The cards of RDMA ports; where there are none, of interfaces.
std::set<std::string> cards_of(const Snapshot& snapshot) {
  std::set<std::string> cards;
  for (const RdmaPort& port : snapshot.ports)
    if (!port.pci.empty()) cards.insert(port.pci);
  if (snapshot.ports.empty())
    for (const NetInterface& interface : snapshot.interfaces)
      if (!interface.pci.empty()) cards.insert(interface.pci);
  return cards;
}

void look_link(const Snapshot& snapshot, Sink& sink) {
  for (const std::string& card : cards_of(snapshot)) {
    const PciDevice* device = find_pci(snapshot, card);
    if (device == nullptr || !device->speed || !device->width) continue;
    const double speed = device->max_speed.value_or(*device->speed);
    const int width = device->max_width.value_or(*device->width);
    if (*device->speed >= speed && *device->width >= width) continue;
    sink.add(
        snapshot.host,
        fmt::format("{} runs at {:g} GT/s x{}; it can do {:g} GT/s x{}", card, *device->speed,
                    *device->width, speed, width),
        {fmt::format("lspci -vvv -s {} | grep -E 'LnkCap|LnkSta'  # and of the slot above", card)});
  }
}

void look_read_request(const Snapshot& snapshot, Sink& sink) {
  for (const std::string& card : cards_of(snapshot)) {
    const PciDevice* device = find_pci(snapshot, card);
    if (device != nullptr && device->max_read_request && *device->max_read_request < 512)
      sink.add(
          snapshot.host,
          fmt::format("{} reads {} bytes at once (MaxReadReq)", card, *device->max_read_request),
          {fmt::format("setpci -s {} CAP_EXP+8.w=5000:7000", card)});
  }
}

void look_acs(const Snapshot& snapshot, Sink& sink) {
  std::set<std::string> bridges;
  for (const PciDevice* gpu : gpus(snapshot))
    bridges.insert(gpu->bridges.begin(), gpu->bridges.end());
  for (const std::string& card : cards_of(snapshot))
    if (const PciDevice* device = find_pci(snapshot, card))
      bridges.insert(device->bridges.begin(), device->bridges.end());
  std::vector<std::string> on, commands;
  for (const std::string& bridge : bridges) {
    const PciDevice* device = find_pci(snapshot, bridge);
    if (device == nullptr || !(device->acs_control.value_or(0) & kRedirecting)) continue;
    on.push_back(bridge);
    commands.push_back(fmt::format("setpci -s {} ECAP_ACS+6.w=0000", bridge));
  }
  if (!on.empty() && !snapshot.ports.empty())
    sink.add(snapshot.host, fmt::format("ACS redirects at {}", fmt::join(on, ", ")), commands);
}

// Of a virtual machine, whose hypervisor keeps ACS on.
void look_ats(const Snapshot& snapshot, Sink& sink) {
  if (!snapshot.system.virtual_machine || gpus(snapshot).empty()) return;
  std::vector<std::string> off, commands;
  for (const std::string& card : cards_of(snapshot)) {
    const PciDevice* device = find_pci(snapshot, card);
    if (device == nullptr || device->ats.value_or(true)) continue;
    off.push_back(card);
    commands.push_back(fmt::format(
        "mlxconfig -d {} set ATS_ENABLED=true  # on the machine below, then reset it", card));
  }
  if (!off.empty() && !snapshot.ports.empty())
    sink.add(snapshot.host, fmt::format("ATS is off at {}", fmt::join(off, ", ")), commands);
}

// The cards' groups tell what is in force, also where it is the kernel's own default; where they do
// not, the command line tells what was asked for.
void look_iommu(const Snapshot& snapshot, Sink& sink) {
  std::vector<std::string> translated;
  bool known = false;
  for (const std::string& card : cards_of(snapshot)) {
    const PciDevice* device = find_pci(snapshot, card);
    if (device == nullptr || device->iommu.empty()) continue;
    known = true;
    if (device->iommu.rfind("DMA", 0) == 0)
      translated.push_back(fmt::format("{} ({})", card, device->iommu));
  }
  const std::string& line = snapshot.system.command_line;
  const bool on = line.find("intel_iommu=on") != line.npos ||
                  line.find("amd_iommu=on") != line.npos || line.find("iommu=force") != line.npos;
  const bool through =
      line.find("iommu=pt") != line.npos || line.find("iommu.passthrough=1") != line.npos;
  const std::vector<std::string> commands = {
      "grubby --update-kernel=ALL --args=iommu=pt  # or GRUB_CMDLINE_LINUX, then reboot"};
  if (!translated.empty())
    sink.add(snapshot.host, fmt::format("the IOMMU translates for {}", fmt::join(translated, ", ")),
             commands);
  else if (!known && on && !through)
    sink.add(snapshot.host, "the kernel was started with an IOMMU on, and without iommu=pt",
             commands);
}

void look_ordering(const Snapshot& snapshot, Sink& sink) {
  for (const std::string& card : cards_of(snapshot)) {
    const PciDevice* device = find_pci(snapshot, card);
    if (device == nullptr || device->relaxed_ordering.value_or(true)) continue;
    sink.add(snapshot.host, fmt::format("{} may not order its writes anew (RlxdOrd-)", card),
             {fmt::format("setpci -s {} CAP_EXP+8.w=0010:0010", card)});
  }
}

bool has_module(const Snapshot& snapshot, const char* name) {
  const auto& all = snapshot.system.modules;
  return std::find(all.begin(), all.end(), name) != all.end();
}

void look_peer_memory(const Snapshot& snapshot, Sink& sink) {
  if (snapshot.ports.empty() || !has_module(snapshot, "nvidia")) return;
  if (!has_module(snapshot, "nvidia_peermem") && !has_module(snapshot, "nv_peer_mem"))
    sink.add(snapshot.host, "the module nvidia is loaded, nvidia_peermem is not",
             {"modprobe nvidia_peermem"});
}

constexpr Rule kRules[] = {
    {.id = "pcie-link",
     .severity = Severity::warning,
     .title = "a card's PCI link is slower or narrower than the card",
     .why = "Half the width or half the speed is half the bandwidth. A card in a wrong slot, a bad "
            "riser or a link that trains anew and again are the causes; look twice, since some "
            "cards slow an idle link down.",
     .fix = "the right slot, reseat the card, firmware of card and board",
     .needs = {"pci", "pci-link"},
     .look = look_link},
    {.id = "pcie-read-request",
     .severity = Severity::warning,
     .title = "a card reads less than 512 bytes of memory at once",
     .why = "Each read costs a round trip over PCI; with small ones the card cannot fetch data as "
            "fast as it sends.",
     .fix = "MaxReadReq of 4096, in the firmware of the board or by setpci",
     .needs = {"pci-capabilities", "pci"},
     .look = look_read_request},
    {.id = "gpu-acs",
     .severity = Severity::warning,
     .title = "PCI access control (ACS) sends traffic between card and GPU through the root",
     .why =
         "With ACS redirection a card does not reach a GPU's memory directly: GPUDirect is slow, "
         "or fails with error 4, or hangs. In virtual machines ATS is needed instead (gpu-ats). "
         "Host memory is not concerned, so it is looked for where GPUs are.",
     .fix = "turn ACS off on the bridges above cards and GPUs, in the firmware or by setpci",
     .where = Where::gpu,
     .needs = {"pci-capabilities", "pci"},
     .look = look_acs},
    {.id = "gpu-ats",
     .severity = Severity::warning,
     .title = "a card of a virtual machine does not translate addresses itself (ATS)",
     .why = "Where a hypervisor gives cards and GPUs to a machine, ACS has to stay on, and every "
            "access of a card to a GPU goes up to the root to be translated, unless the card asks "
            "for the translation once and keeps it: GPUDirect is slow without ATS.",
     .fix = "enable ATS in the card's firmware, and let the hypervisor pass it on",
     .where = Where::gpu,
     .needs = {"pci-capabilities", "pci"},
     .look = look_ats},
    {.id = "pcie-relaxed-ordering",
     .severity = Severity::note,
     .title = "a card has PCI relaxed ordering disabled",
     .why = "Each write then waits for those before it. On some processors (AMD, and all with GPUs "
            "behind another root) a card does not reach its rate without it.",
     .fix = "enable relaxed ordering in the firmware of the board, or by setpci",
     .where = Where::gpu,
     .needs = {"pci-capabilities", "pci"},
     .look = look_ordering},
    {.id = "iommu-translating",
     .severity = Severity::warning,
     .title = "an IOMMU translates every access of a card",
     .why =
         "Without iommu=pt each address that a card uses is looked up; small messages slow down, "
         "and direct access to GPUs fails.",
     .fix = "start the kernel with iommu=pt",
     .needs = {"command-line"},
     .look = look_iommu},
    {.id = "gpu-peer-memory",
     .severity = Severity::note,
     .title = "nvidia_peermem is not loaded",
     .why = "Cards reach GPU memory through dmabuf (open driver, kernel 5.12 and newer) or through "
            "this module. Without either, data of GPUs go through host memory.",
     .fix = "load nvidia_peermem, or use the open driver with dmabuf",
     .where = Where::gpu,
     .look = look_peer_memory},
};

}  // namespace

std::span<const Rule> pci_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
