// RDMA devices and their ports: /sys/class/infiniband.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "tools/doctor/collect/collect.h"
#include "transports/verbs/library/library.h"

namespace ringwood::tools::doctor {
namespace {

constexpr const char* kFolder = "sys/class/infiniband/";

// "4: ACTIVE" -> "ACTIVE".
std::string after_colon(const std::string& text) {
  const size_t colon = text.find(':');
  return colon == text.npos ? text : trimmed(text.substr(colon + 1));
}

bool is_empty_gid(const std::string& gid) { return gid.find_first_not_of("0:") == gid.npos; }

// Slots of other network namespaces and emptied ones answer EINVAL: they have no type then.
void read_gids(const Tree& tree, const std::string& folder, RdmaPort& port) {
  for (const std::string& name : tree.names(folder + "gids")) {
    const auto index = leading_number(name);
    const auto address = tree.text(fmt::format("{}gids/{}", folder, name));
    if (!index || !address || is_empty_gid(*address)) continue;
    const auto type = tree.text(fmt::format("{}gid_attrs/types/{}", folder, name));
    const auto interface = tree.text(fmt::format("{}gid_attrs/ndevs/{}", folder, name));
    port.gids.push_back(
        {static_cast<int>(*index), *address, type.value_or(""), interface.value_or("")});
  }
  std::sort(port.gids.begin(), port.gids.end(),
            [](const GidRow& a, const GidRow& b) { return a.index < b.index; });
  for (const GidRow& gid : port.gids)
    if (port.interface.empty()) port.interface = gid.interface;
}

void read_counters(Tree& tree, const std::string& folder, RdmaPort& port) {
  for (const char* kind : {"counters/", "hw_counters/"}) {
    for (const std::string& name : tree.names(folder + kind)) {
      if (name == "lifespan") continue;
      if (const auto value = tree.number(fmt::format("{}{}{}", folder, kind, name)))
        port.counters[name] = *value;
    }
  }
  if (port.counters.empty())
    tree.miss("hw-counters", name_of(port), "the driver has no counters in /sys");
}

void read_port(Tree& tree, const std::string& folder, RdmaPort& port) {
  const std::string where = name_of(port);
  port.state = after_colon(tree.needed("port-state", where, folder + "state", true).value_or(""));
  port.phys_state = after_colon(tree.text(folder + "phys_state").value_or(""));
  port.link_layer = tree.text(folder + "link_layer").value_or("");
  if (const auto rate = tree.text(folder + "rate")) port.rate_gbits = std::atof(rate->c_str());
  read_gids(tree, folder, port);
  read_counters(tree, folder, port);
  const std::string device = kFolder + port.device;
  if (const auto forced = tree.text(fmt::format("{}/tc/{}/traffic_class", device, port.number))) {
    const size_t equals = forced->find('=');  // "Global tclass=106"
    const auto value = leading_number(forced->substr(equals == forced->npos ? 0 : equals + 1));
    if (value) port.traffic_class = static_cast<int>(*value);
  }
  const std::string cm = fmt::format("sys/kernel/config/rdma_cm/{}/ports/{}/default_roce_tos",
                                     port.device, port.number);
  if (const auto tos = tree.number(cm)) port.cm_tos = static_cast<int>(*tos);
}

// The character device through which the library reaches an RDMA device.
void find_device_file(const Tree& tree, RdmaPort& port) {
  for (const std::string& name : tree.names("sys/class/infiniband_verbs")) {
    if (tree.text(fmt::format("sys/class/infiniband_verbs/{}/ibdev", name)) != port.device)
      continue;
    const std::string file = "/dev/infiniband/" + name;
    port.device_file = tree.exists(file);
    if (tree.live() && *port.device_file)
      port.device_file_writable = ::access(file.c_str(), R_OK | W_OK) == 0;
    return;
  }
  port.device_file = false;
}

// What only the library tells: the path MTU that is in force, and whether it has the provider of
// the device's driver.
void ask_library(const verbs::Library& library, std::vector<RdmaPort>& ports) {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(library.free_device_list)> list(
      library.get_device_list(&count), library.free_device_list);
  if (!list) return;
  for (RdmaPort& port : ports) port.in_library = false;
  for (int i = 0; i < count; ++i) {
    const std::string name = library.get_device_name(list.get()[i]);
    const std::unique_ptr<ibv_context, decltype(library.close_device)> context(
        library.open_device(list.get()[i]), library.close_device);
    for (RdmaPort& port : ports) {
      if (port.device == name) port.in_library = true;
      ibv_port_attr attributes{};
      if (context && port.device == name &&
          library.port(context.get(), static_cast<uint8_t>(port.number), attributes) == 0)
        port.path_mtu = 128 << attributes.active_mtu;
    }
  }
}

// ibv_devinfo: "hca_id: mlx5_0", "port: 1", "active_mtu: 4096 (5)".
void read_devinfo(const std::string& text, std::vector<RdmaPort>& ports) {
  std::string device;
  int64_t number = 0;
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 2) continue;
    if (words[0] == "hca_id:") device = words[1];
    if (words[0] == "port:") number = leading_number(words[1]).value_or(0);
    if (words[0] != "active_mtu:") continue;
    for (RdmaPort& port : ports)
      if (port.device == device && port.number == number)
        port.path_mtu = static_cast<int>(leading_number(words[1]).value_or(0));
  }
}

}  // namespace

int path_mtu_of(int interface_mtu) {
  // Headers of the largest packet: GRH, UDP, base transport, XRC, atomic, checksum.
  constexpr int kHeaders = 40 + 8 + 12 + 4 + 28 + 4;
  for (const int size : {4096, 2048, 1024, 512})
    if (interface_mtu - kHeaders >= size) return size;
  return 256;
}

void collect_ports(Tree& tree, Snapshot& snapshot) {
  for (const std::string& device : tree.names(kFolder)) {
    const std::string folder = kFolder + device;
    RdmaPort one;
    one.device = device;
    one.driver = tree.target(folder + "/device/driver");
    if (one.driver.empty() && tree.exists(folder + "/parent"))
      one.driver = begins_with(device, "siw") ? "siw" : "rdma_rxe";
    one.firmware = tree.text(folder + "/fw_ver").value_or("");
    one.board = tree.text(folder + "/board_id").value_or("");
    const std::string pci = tree.target(folder + "/device");
    if (pci.find(':') != pci.npos) one.pci = pci;
    find_device_file(tree, one);
    for (const std::string& number : tree.names(folder + "/ports")) {
      RdmaPort port = one;
      port.number = static_cast<int>(leading_number(number).value_or(1));
      read_port(tree, fmt::format("{}/ports/{}/", folder, number), port);
      snapshot.ports.push_back(port);
    }
  }
  if (snapshot.ports.empty()) return;
  std::string why;
  if (tree.live()) {
    if (const verbs::Library* library = verbs::load(why)) ask_library(*library, snapshot.ports);
  } else if (const auto text = tree.printed("ibv_devinfo -v")) {
    read_devinfo(*text, snapshot.ports);
  }
}

}  // namespace ringwood::tools::doctor
