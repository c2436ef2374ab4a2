// Devices and ports: are they there, up, and as fast as their neighbours?
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

void look_required(const Snapshot& snapshot, Sink& sink) {
  if (!sink.wishes().require_verbs) return;
  const std::string off = verbs_off(snapshot);
  if (has_verbs(snapshot) && off.empty()) return;
  if (has_verbs(snapshot))
    return sink.add(snapshot.host, fmt::format("verbs are required, and {} leaves them out", off),
                    {"unset " + off.substr(0, off.find('='))});
  sink.add(snapshot.host,
           snapshot.ports.empty()
               ? "verbs are required, and there is no RDMA device"
               : fmt::format("verbs are required, and none of {} ports is active with a GID that "
                             "can be used",
                             snapshot.ports.size()));
}

// The network half of a driver, and the module that is its RDMA half.
const char* rdma_half(const std::string& driver) {
  if (driver == "mlx5_core") return "mlx5_ib";
  if (driver == "bnxt_en") return "bnxt_re";
  if (driver == "ice") return "irdma";
  return driver == "ionic" ? "ionic_rdma" : nullptr;
}

// Mellanox's cards are bought for RDMA; many of the others serve a host's management.
void look_driver(const Snapshot& snapshot, Sink& sink) {
  for (const PciDevice& device : snapshot.pci) {
    const char* half = rdma_half(device.driver);
    if (half == nullptr || !begins_with(device.kind, "0x02")) continue;
    const bool known =
        std::any_of(snapshot.ports.begin(), snapshot.ports.end(), [&](const RdmaPort& port) {
          // One device stands for all members of a bond.
          const auto all = carriers(snapshot, port);
          return port.pci == device.address ||
                 std::any_of(all.begin(), all.end(),
                             [&](const NetInterface* one) { return one->pci == device.address; });
        });
    if (!known)
      sink.add(
          device.driver == "mlx5_core" ? Severity::warning : Severity::note, snapshot.host,
          fmt::format("{} has the driver {}, and no RDMA device", device.address, device.driver),
          {fmt::format("modprobe {}", half)});
  }
}

void look_device_file(const Snapshot& snapshot, Sink& sink) {
  std::string last;
  for (const RdmaPort& port : snapshot.ports) {
    if (port.device == last) continue;
    last = port.device;
    if (port.device_file == false)
      sink.add(
          snapshot.host,
          fmt::format("{} has no file /dev/infiniband/uverbs* that this process sees", port.device),
          {"modprobe ib_uverbs"});
    else if (port.device_file_writable == false)
      sink.add(snapshot.host,
               fmt::format("user {} may not write the file of {} in /dev/infiniband",
                           snapshot.process.uid.value_or(-1), port.device),
               {"chmod 666 /dev/infiniband/uverbs*"});
  }
}

void look_library(const Snapshot& snapshot, Sink& sink) {
  const std::string& library = snapshot.system.verbs_library;
  if (!library.empty() && library != "loaded")
    sink.add(snapshot.host, library,
             {"apt-get install libibverbs1 ibverbs-providers  # or rdma-core of the distribution"});
  for (const RdmaPort* port : rails(snapshot))
    if (library == "loaded" && port->in_library == false)
      sink.add(
          snapshot.host,
          fmt::format("libibverbs is loaded and does not list {}: the provider of its driver{} "
                      "is missing",
                      port->device, port->driver.empty() ? "" : " " + port->driver),
          {"apt-get install ibverbs-providers  # or rdma-core of the distribution"});
}

void look_port(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort& port : snapshot.ports) {
    if (port.state.empty() || is_active(port) || !is_selected(snapshot, port)) continue;
    const NetInterface* interface = find_interface(snapshot, port.interface);
    // A port that nobody has ever set up is a spare one, where another works.
    const bool wanted = !has_verbs(snapshot) ||
                        (interface != nullptr && (interface->up == true) &&
                         std::any_of(interface->addresses.begin(), interface->addresses.end(),
                                     [](const std::string& one) { return bool(parse_ipv4(one)); }));
    std::vector<std::string> commands;
    if (!port.interface.empty())
      commands = {fmt::format("ip link set {} up", port.interface),
                  fmt::format("ethtool {}  # no link: the cable, its plug, the switch's port",
                              port.interface)};
    sink.add(wanted ? Severity::error : Severity::warning, snapshot.host,
             fmt::format("{} is {}, {}{}", name_of(port), port.state,
                         port.phys_state.empty() ? "physical state unknown" : port.phys_state,
                         port.interface.empty() ? "" : " (" + port.interface + ")"),
             commands);
  }
}

// Of the ports of one kind of card.
void look_rate(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot)) {
    const RdmaPort* best = port;
    for (const RdmaPort* other : rails(snapshot))
      if (other->board == port->board && other->driver == port->driver &&
          other->rate_gbits.value_or(0) > best->rate_gbits.value_or(0))
        best = other;
    if (best == port || !port->rate_gbits || is_software(*port)) continue;
    sink.add(snapshot.host,
             fmt::format("{} runs at {:g} Gbit/s, {} at {:g}", name_of(*port), *port->rate_gbits,
                         name_of(*best), *best->rate_gbits),
             {fmt::format("ethtool {}  # speeds that both ends offer", port->interface)});
  }
}

void look_mtu(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot)) {
    if (!is_roce(*port) || !port->path_mtu || *port->path_mtu >= 4096) continue;
    const NetInterface* interface = find_interface(snapshot, port->interface);
    sink.add(snapshot.host,
             fmt::format("{} has a path MTU of {} ({} has an MTU of {})", name_of(*port),
                         *port->path_mtu, port->interface,
                         interface != nullptr ? interface->mtu.value_or(0) : 0),
             {fmt::format("ip link set {} mtu 4200  # or 9000; on all hosts and switches",
                          port->interface)});
  }
}

constexpr Rule kRules[] = {
    {.id = "rdma-required",
     .severity = Severity::error,
     .title = "--require verbs, and no RDMA port can be used",
     .why = "Without verbs a job runs over TCP, silently and many times slower. --require verbs "
            "makes that an error; without it a host that has no RDMA device is healthy.",
     .fix = "install a driver, unset what turns verbs off, or leave --require away on hosts that "
            "use TCP",
     .covers = {"env-verbs-off"},
     .look = look_required},
    {.id = "rdma-driver",
     .severity = Severity::warning,
     .title = "a card that could do RDMA has no RDMA device",
     .why = "The network driver is loaded, its RDMA half is not, so verbs find nothing. In a "
            "container or virtual machine the device may also not have been passed on.",
     .fix = "load the driver's RDMA module, or give the container the device",
     .needs = {"pci"},
     .look = look_driver},
    {.id = "rdma-device-file",
     .severity = Severity::error,
     .title = "a device has no file in /dev/infiniband, or it may not be written",
     .why = "The library talks to a device through /dev/infiniband/uverbsN. Containers get it from "
            "a device plugin or --device=/dev/infiniband; rights come from udev's rules.",
     .fix = "load ib_uverbs, pass /dev/infiniband on to the container, or give this user rights",
     .where = Where::rdma,
     .look = look_device_file},
    {.id = "rdma-library",
     .severity = Severity::error,
     .title = "libibverbs cannot be loaded, or has no provider for a device",
     .why = "Ringwood loads the library when it starts; without it, or without the provider of the "
            "card's driver, no device can be opened.",
     .fix = "install rdma-core (libibverbs1 and ibverbs-providers)",
     .where = Where::rdma,
     .needs = {"verbs-library"},
     .look = look_library},
    {.id = "port-down",
     .severity = Severity::error,
     .title = "a port is not ACTIVE",
     .why = "Its rail is left out: traffic goes over the others or, without a word, over TCP. A "
            "warning only where another port works and this one has no address.",
     .fix = "set the interface up; see to the cable and the switch's port",
     .where = Where::rdma,
     .needs = {"port-state"},
     .covers = {"hosts-rails"},
     .look = look_port},
    {.id = "port-rate",
     .severity = Severity::warning,
     .title = "ports of one kind of card run at different rates",
     .why = "A collective over several rails waits for the slowest one.",
     .fix = "bring the slow port to the rate of the others: cable, switch port, negotiation",
     .where = Where::rdma,
     .needs = {"port-rate"},
     .look = look_rate},
    {.id = "mtu-small",
     .severity = Severity::warning,
     .title = "the path MTU of a RoCE port is below 4096",
     .why = "RDMA packets are 256 to 4096 bytes; the interface's MTU must be 4200 to carry the "
            "largest. Small ones cost bandwidth and packets per second.",
     .fix = "an MTU of 4200 or 9000 on hosts and switches, end to end",
     .where = Where::rdma,
     .needs = {"path-mtu"},
     .look = look_mtu},
};

}  // namespace

std::span<const Rule> rdma_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
