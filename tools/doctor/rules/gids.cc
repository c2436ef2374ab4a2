// GIDs: the addresses of RoCE ports.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

bool is_here(const RdmaPort& port) {
  return port.gids.empty() || std::any_of(port.gids.begin(), port.gids.end(),
                                          [](const GidRow& g) { return !g.interface.empty(); });
}

std::vector<std::string> address_commands(const RdmaPort& port) {
  if (port.interface.empty()) return {};
  return {fmt::format("# ip address add ADDRESS/PREFIX dev {}", port.interface)};
}

void look_namespace(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot))
    if (is_roce(*port) && !is_here(*port))
      sink.add(snapshot.host,
               fmt::format("none of the {} GIDs of {} belongs to an interface that is in this "
                           "network namespace",
                           port->gids.size(), name_of(*port)),
               {"rdma system show  # netns shared: the interface has to be moved here",
                "# ip link set RAIL netns CONTAINER"});
}

void look_none(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot)) {
    std::string why;
    if (is_roce(*port) && is_here(*port) && !best_gid(snapshot, *port, why))
      sink.add(snapshot.host, fmt::format("{}: {}", name_of(*port), why), address_commands(*port));
  }
}

void look_link_local(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot)) {
    std::string why;
    const auto gid = best_gid(snapshot, *port, why);
    if (is_roce(*port) && gid && verbs::is_link_local(gid->bytes))
      sink.add(snapshot.host,
               fmt::format("{} has only {} [{}] {}", name_of(*port), "the link-local GID",
                           gid->index, verbs::to_string(gid->bytes)),
               address_commands(*port));
  }
}

void look_fixed(const Snapshot& snapshot, Sink& sink) {
  const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_GID_INDEX");
  const auto index = knob_number(snapshot, "RINGWOOD_VERBS_GID_INDEX");
  if (!setting || !index || *index < 0) return;
  for (const RdmaPort* port : rails(snapshot)) {
    if (!is_roce(*port)) continue;
    std::string why;
    const auto best = best_gid(snapshot, *port, why);
    const auto table = gid_table(snapshot, *port);
    const auto fixed = std::find_if(table.begin(), table.end(),
                                    [&](const verbs::Gid& gid) { return gid.index == *index; });
    // A link-local row is a fault of its own where the port has no other.
    const bool local = fixed != table.end() && verbs::is_link_local(fixed->bytes) &&
                       !(best && verbs::is_link_local(best->bytes));
    const bool works = fixed != table.end() && !fixed->interface.empty() && fixed->up && !local &&
                       fixed->type == verbs::GidType::roce_v2;
    const std::string wanted = fmt::format("{}={}", setting->name, setting->value);
    const std::string choice =
        best ? fmt::format("; {} would be chosen", verbs::print({*best})) : "";
    if (works) continue;
    sink.add(snapshot.host,
             fmt::format("{}: {} of {} is {}{}", wanted, "that row", name_of(*port),
                         fixed == table.end() ? "empty" : verbs::print({*fixed}), choice),
             {"unset " + setting->name});
  }
}

// "10.0.0.1" for "0000:...:ffff:0a00:0001".
std::string short_address(const std::string& address) {
  verbs::GidBytes bytes{};
  return ::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1 ? verbs::to_string(bytes)
                                                                   : address;
}

void look_moved(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot)) {
    std::string what;
    for (const GidMove& move : snapshot.moves) {
      if (move.where != name_of(*port)) continue;
      what += fmt::format(
          "{}{} ({}) {}", what.empty() ? "" : ", ", short_address(move.address), move.type,
          move.after ? fmt::format("moved from index {} to {}", move.before, *move.after)
                     : fmt::format("of index {} is gone", move.before));
    }
    if (!what.empty())
      sink.add(snapshot.host, fmt::format("{}: {} in {:.3g} s", name_of(*port), what,
                                          snapshot.seconds.value_or(0)));
  }
}

constexpr Rule kRules[] = {
    {.id = "gid-namespace",
     .severity = Severity::error,
     .title = "a port's GIDs belong to interfaces of another network namespace",
     .why = "A container sees the device, but its addresses belong to an interface that was not "
            "moved into it. Connections fail with ENODEV or EINVAL.",
     .fix = "attach the rail's interface to the container (host network, SR-IOV or macvlan plugin)",
     .where = Where::rdma,
     .needs = {"port-state"},
     .look = look_namespace},
    {.id = "gid-none",
     .severity = Severity::error,
     .title = "an active RoCE port has no GID that can be used",
     .why = "Each address of the interface gives a RoCE v2 GID; without an address, or with an "
            "interface that is down, there is none, and error 12 or EINVAL follow at the first "
            "connection. After a link has been down, IPv6 GIDs may be gone.",
     .fix = "give the rail's interface an address and set it up",
     .where = Where::rdma,
     .needs = {"port-state"},
     .look = look_none},
    {.id = "gid-link-local",
     .severity = Severity::error,
     .title = "an active RoCE port has link-local GIDs only",
     .why = "They work inside one layer 2 network only and are not routed. Mostly the rail's IP "
            "address is missing.",
     .fix = "give the rail's interface an IPv4 address",
     .where = Where::rdma,
     .needs = {"port-state"},
     .look = look_link_local},
    {.id = "gid-fixed-index",
     .severity = Severity::error,
     .title = "a fixed GID index names a row that cannot be used",
     .why = "Tables differ between hosts, cards and containers, and move after a link has been "
            "down; index 3 is folklore. Without a fixed index each port chooses the best row.",
     .fix = "leave the index unset",
     .where = Where::rdma,
     .needs = {"environment"},
     .covers = {"env-gid-index"},
     .look = look_fixed},
    {.id = "gid-moved",
     .severity = Severity::warning,
     .title = "a port's GIDs moved or went away while doctor watched",
     .why =
         "An address was removed or added, or the link was down. Connections that were made with "
         "the old row fail, and a fixed index now means another address.",
     .fix =
         "find what changes addresses (a network manager, a flapping link); leave the index unset",
     .where = Where::rdma,
     .needs = {"second-sample"},
     .look = look_moved},
};

}  // namespace

std::span<const Rule> gid_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
