// PCI devices that move data: links, memory nodes, access control. /sys/bus/pci.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tools/doctor/collect/collect.h"
#include "tools/doctor/collect/texts.h"

namespace ringwood::tools::doctor {
namespace {

constexpr const char* kFolder = "sys/bus/pci/devices/";
constexpr size_t kHeaderBytes = 64;  // all that a process without CAP_SYS_ADMIN sees

// Network controllers, displays and accelerators.
bool moves_data(const std::string& kind) {
  return begins_with(kind, "0x02") || begins_with(kind, "0x03") || begins_with(kind, "0x12");
}

bool is_address(const std::string& name) {
  return name.size() >= 12 && name.find(':') == 4 && name.rfind('.') == name.size() - 2;
}

uint32_t word_at(const std::string& config, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes && at + i < config.size(); ++i)
    value |= static_cast<uint32_t>(static_cast<unsigned char>(config[at + i])) << (8 * i);
  return value;
}

// The place of a capability in the chain of the first 256 bytes; 0: there is none.
size_t find_capability(const std::string& config, uint32_t id) {
  size_t at = word_at(config, 0x34, 1) & ~3u;
  for (int steps = 0; at >= kHeaderBytes && at + 2 <= config.size() && steps < 48; ++steps) {
    if (word_at(config, at, 1) == id) return at;
    at = word_at(config, at + 1, 1) & ~3u;
  }
  return 0;
}

// The same for the extended ones, which begin at 256.
size_t find_extended(const std::string& config, uint32_t id) {
  size_t at = 0x100;
  for (int steps = 0; at >= 0x100 && at + 4 <= config.size() && steps < 960; ++steps) {
    const uint32_t head = word_at(config, at, 4);
    if (head == 0) return 0;
    if ((head & 0xffff) == id) return at;
    at = (head >> 20) & ~3u;
  }
  return 0;
}

void read_config(const std::string& config, PciDevice& device) {
  constexpr uint32_t kExpress = 0x10, kAccessControl = 0x0d, kTranslation = 0x0f;
  if (const size_t at = find_capability(config, kExpress)) {
    const uint32_t control = word_at(config, at + 8, 2);
    device.max_read_request = 128 << ((control >> 12) & 7);
    device.relaxed_ordering = ((control >> 4) & 1) != 0;
  }
  if (const size_t at = find_extended(config, kAccessControl))
    device.acs_control = static_cast<int>(word_at(config, at + 6, 2));
  if (const size_t at = find_extended(config, kTranslation))
    device.ats = (word_at(config, at + 6, 2) >> 15) != 0;
}

std::optional<double> speed_of(const std::optional<std::string>& text) {
  const double speed = text ? std::atof(text->c_str()) : 0;  // "16.0 GT/s PCIe", "Unknown"
  return speed > 0 ? std::optional<double>(speed) : std::nullopt;
}

std::optional<int> width_of(const std::optional<int64_t>& width) {
  // 255 and 63 stand for a link that is not known.
  return width && *width > 0 && *width <= 32 ? std::optional<int>(static_cast<int>(*width))
                                             : std::nullopt;
}

// Either the configuration space, or what lspci printed as root.
bool read_capabilities(const Tree& tree, const std::map<std::string, LspciDevice>& printed,
                       PciDevice& device) {
  const auto found = printed.find(device.address);
  if (found != printed.end() && found->second.capabilities_read) {
    const LspciDevice& told = found->second;
    device.max_read_request = told.max_read_request;
    device.relaxed_ordering = told.relaxed_ordering;
    device.acs_control = told.acs_control;
    device.ats = told.ats;
    if (!device.speed) device.speed = told.speed;
    if (!device.max_speed) device.max_speed = told.max_speed;
    if (!device.width) device.width = told.width;
    if (!device.max_width) device.max_width = told.max_width;
    return true;
  }
  const auto config = tree.text(kFolder + device.address + "/config");
  if (!config || config->size() <= kHeaderBytes) return false;
  read_config(*config, device);
  return true;
}

PciDevice read_device(const Tree& tree, const std::string& address) {
  const std::string folder = kFolder + address + "/";
  PciDevice device;
  device.address = address;
  device.vendor = tree.text(folder + "vendor").value_or("");
  device.device = tree.text(folder + "device").value_or("");
  device.kind = tree.text(folder + "class").value_or("");
  device.driver = tree.target(folder + "driver");
  device.speed = speed_of(tree.text(folder + "current_link_speed"));
  device.max_speed = speed_of(tree.text(folder + "max_link_speed"));
  device.width = width_of(tree.number(folder + "current_link_width"));
  device.max_width = width_of(tree.number(folder + "max_link_width"));
  const auto node = tree.number(folder + "numa_node");
  if (node && *node >= 0 && *node < 4096) device.node = static_cast<int>(*node);
  device.iommu = tree.text(folder + "iommu_group/type").value_or("");
  for (const auto& part : std::filesystem::path(tree.resolved(folder)))
    if (is_address(part.string()) && part.string() != address)
      device.bridges.push_back(part.string());
  return device;
}

}  // namespace

void collect_pci(Tree& tree, Snapshot& snapshot) {
  std::map<std::string, LspciDevice> printed;
  for (const char* command : {"lspci -vvv", "lspci -nnvv", "lspci -nnvvv"})
    if (const auto text = tree.printed(command)) printed = parse_lspci(*text);
  std::set<std::string> wanted;
  for (const std::string& address : tree.names(kFolder)) {
    if (!is_address(address)) continue;
    if (!moves_data(tree.text(fmt::format("{}{}/class", kFolder, address)).value_or(""))) continue;
    wanted.insert(address);
    for (const std::string& bridge : read_device(tree, address).bridges) wanted.insert(bridge);
  }
  bool all_capabilities = true;
  for (const std::string& address : wanted) {
    PciDevice device = read_device(tree, address);
    all_capabilities = read_capabilities(tree, printed, device) && all_capabilities;
    snapshot.pci.push_back(device);
  }
  if (!all_capabilities)
    tree.miss("pci-capabilities", "",
              "the configuration space of PCI devices is read as root only");
  if (wanted.empty()) tree.miss("pci", "", "sys/bus/pci/devices has no network or accelerator");
}

}  // namespace ringwood::tools::doctor
