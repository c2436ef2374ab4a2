// Traps in the environment of a rank.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"
#include "transports/base/knobs/knobs.h"
#include "transports/verbs/rail/addresses.h"

namespace ringwood::tools::doctor {
namespace {

void look_disabled(const Snapshot& snapshot, Sink& sink) {
  const std::string off = verbs_off(snapshot);
  if (!off.empty() && has_verbs(snapshot))
    sink.add(snapshot.host,
             fmt::format("{} leaves verbs out, and this host has a port that works", off),
             {"unset " + off.substr(0, off.find('='))});
}

// "mlx5_1" also takes mlx5_10.
void look_prefix(const Snapshot& snapshot, Sink& sink) {
  const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_DEVICES");
  if (!setting || setting->value.find_first_of("=^") == 0) return;
  std::string items = setting->value;
  std::replace(items.begin(), items.end(), ',', ' ');
  for (const std::string& item : words_of(items)) {
    const std::string name = item.substr(0, item.find(':'));
    std::string also;
    bool exact = false;
    for (const RdmaPort& port : snapshot.ports) {
      exact = exact || port.device == name;
      if (port.device != name && begins_with(port.device, name)) also = port.device;
    }
    if (exact && !also.empty())
      sink.add(snapshot.host,
               fmt::format("{}={} also takes {}", setting->name, setting->value, also),
               {fmt::format("# export {}==mlx5_N instead of mlx5_N", setting->name)});
  }
}

void look_devices(const Snapshot& snapshot, Sink& sink) {
  const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_DEVICES");
  if (!setting || setting->value[0] == '^') return;
  const std::string exact = setting->value[0] == '=' ? "=" : "";
  std::string items = setting->value.substr(exact.size());
  std::replace(items.begin(), items.end(), ',', ' ');
  for (const std::string& item : words_of(items)) {
    if (std::none_of(snapshot.ports.begin(), snapshot.ports.end(), [&](const RdmaPort& port) {
          return verbs::selected(exact + item, port.device, port.number);
        }))
      sink.add(snapshot.host,
               fmt::format("{}={}: there is no {}", setting->name, setting->value, item),
               {"unset " + setting->name});
  }
}

void look_gid_index(const Snapshot& snapshot, Sink& sink) {
  const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_GID_INDEX");
  const auto index = knob_number(snapshot, "RINGWOOD_VERBS_GID_INDEX");
  if (setting && index && *index >= 0)
    sink.add(snapshot.host, fmt::format("{}={}", setting->name, setting->value),
             {"unset " + setting->name});
}

void look_timeout(const Snapshot& snapshot, Sink& sink) {
  const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_TIMEOUT");
  const auto value = knob_number(snapshot, "RINGWOOD_VERBS_TIMEOUT");
  if (!value || *value > 14 || *value < 1) return;
  const double once_s = 4.096e-6 * static_cast<double>(1 << *value);
  sink.add(snapshot.host,
           fmt::format("{}={}: a packet is given up after about {:.1f} s", setting->name,
                       setting->value, 4 * once_s * 8),
           {"unset " + setting->name});
}

void look_debug(const Snapshot& snapshot, Sink& sink) {
  for (const auto& [name, loud] : {std::pair{"RINGWOOD_LOG", "debug"}, {"NCCL_DEBUG", "TRACE"}}) {
    const auto found = snapshot.process.environment.find(name);
    if (found != snapshot.process.environment.end() && found->second == loud)
      sink.add(snapshot.host, fmt::format("{}={}", name, loud), {fmt::format("unset {}", name)});
  }
}

bool is_knob(const std::string& name) {
  const auto all = knobs();
  return std::any_of(all.begin(), all.end(), [&](const Knob& knob) { return name == knob.name; });
}

void look_unknown(const Snapshot& snapshot, Sink& sink) {
  for (const auto& [name, value] : snapshot.process.environment) {
    // RINGWOOD_BINARY is for the tests of the command.
    if (!begins_with(name, "RINGWOOD_") || name == "RINGWOOD_BINARY" || is_knob(name)) continue;
    sink.add(snapshot.host, fmt::format("{}={} means nothing", name, value),
             {"ringwood env  # all that there are"});
  }
}

void look_interface(const Snapshot& snapshot, Sink& sink) {
  const auto setting = knob_in(snapshot, "RINGWOOD_SOCKET_IFNAME");
  if (!setting || setting->value[0] == '^' || setting->value.find('/') != std::string::npos) return;
  std::string items = setting->value;
  std::replace_if(
      items.begin(), items.end(), [](char c) { return c == ',' || c == '='; }, ' ');
  const bool exact = setting->value[0] == '=';
  std::string known;
  for (const NetInterface& interface : snapshot.interfaces) {
    if (interface.addresses.empty()) continue;
    known += (known.empty() ? "" : ", ") + interface.name;
    for (const std::string& item : words_of(items))
      if (exact ? interface.name == item : begins_with(interface.name, item)) return;
  }
  sink.add(snapshot.host,
           fmt::format("{}={}: no interface with an address has that name; there are {}",
                       setting->name, setting->value, known.empty() ? "none" : known),
           {"unset " + setting->name});
}

constexpr Rule kRules[] = {
    {.id = "env-verbs-off",
     .severity = Severity::warning,
     .title = "the environment turns verbs off on a host where they work",
     .why = "A variable that was set to work around something else is still there, and everything "
            "runs over TCP.",
     .fix = "unset the variable",
     .where = Where::rdma,
     .needs = {"environment"},
     .look = look_disabled},
    {.id = "env-device-prefix",
     .severity = Severity::warning,
     .title = "a device is named by a prefix that takes others too",
     .why = "Without = names are prefixes: mlx5_1 also takes mlx5_10 to mlx5_19, which may belong "
            "to storage.",
     .fix = "write =mlx5_1",
     .where = Where::rdma,
     .needs = {"environment"},
     .look = look_prefix},
    {.id = "env-device-absent",
     .severity = Severity::error,
     .title = "the environment names an RDMA device that is not there",
     .why = "Names of devices differ between hosts and change with a new kernel or card.",
     .fix = "name a device of this host, or unset the variable",
     .where = Where::rdma,
     .needs = {"environment"},
     .covers = {"hosts-rails", "rdma-required"},
     .look = look_devices},
    {.id = "env-gid-index",
     .severity = Severity::note,
     .title = "a fixed GID index is set",
     .why = "It works now; it will not on a host whose table is in another order, or after a link "
            "has been down.",
     .fix = "leave the index unset; each port then chooses the best row",
     .where = Where::rdma,
     .needs = {"environment"},
     .look = look_gid_index},
    {.id = "env-timeout",
     .severity = Severity::warning,
     .title = "the RDMA timeout is 14 or less",
     .why = "A pause of the network that a larger timeout survives ends the job with error 12.",
     .fix = "leave the timeout at 20",
     .where = Where::rdma,
     .needs = {"environment"},
     .look = look_timeout},
    {.id = "env-debug",
     .severity = Severity::warning,
     .title = "a debug log is left on",
     .why = "It writes lines for every connection or call, and fills disks.",
     .fix = "unset the variable",
     .needs = {"environment"},
     .look = look_debug},
    {.id = "env-unknown",
     .severity = Severity::warning,
     .title = "a variable RINGWOOD_... is not a knob",
     .why = "Mostly a slip in its name: the setting that was meant is not in force.",
     .fix = "see ringwood env for all names",
     .needs = {"environment"},
     .look = look_unknown},
    {.id = "interface-absent",
     .severity = Severity::error,
     .title = "the environment names a network interface that is not there",
     .why = "Ranks cannot offer an address to each other and the job does not start.",
     .fix = "name an interface of this host, a CIDR that fits all hosts, or unset the variable",
     .needs = {"environment", "addresses"},
     .look = look_interface},
};

}  // namespace

std::span<const Rule> environment_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
