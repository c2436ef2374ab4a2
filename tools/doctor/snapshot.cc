#include "tools/doctor/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>

#include "transports/base/bytes.h"
#include "transports/base/error.h"

// The library has no std::optional of its own yet: null is nullopt.
namespace nlohmann {
template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& out, const std::optional<T>& value) {
    if (value)
      out = *value;
    else
      out = nullptr;
  }
  static void from_json(const json& in, std::optional<T>& value) {
    if (in.is_null())
      value.reset();
    else
      value = in.get<T>();
  }
};
}  // namespace nlohmann

namespace ringwood::tools::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Gap, need, where, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GidRow, index, address, type, interface)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RdmaPort, device, number, driver, firmware, board,
                                                pci, state, phys_state, link_layer, rate_gbits,
                                                path_mtu, interface, gids, counters, traffic_class,
                                                cm_tos, device_file, device_file_writable,
                                                in_library)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Dcb, trust, pfc, traffic_classes, dscp_to_priority,
                                                applications_read)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Pause, receive, send)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Bond, mode, hash, members)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NetInterface, name, physical, mtu, node, up,
                                                carrier, speed_mbits, carrier_changes, driver,
                                                firmware, pci, fec, addresses, settings, counters,
                                                pause, dcb, bond, ecn)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PciDevice, address, vendor, device, kind, driver,
                                                speed, max_speed, width, max_width, node,
                                                max_read_request, relaxed_ordering, acs_control,
                                                ats, bridges, iommu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Gpu, index, model, pci, version, ecc_errors,
                                                nvlinks, nvlinks_up, paths, peers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Route, interface, destination, mask, gateway)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GroupLimits, memory, memory_used, memory_shared,
                                                memory_kills, threads, threads_used,
                                                threads_refused)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ProcessState, pid, rank, uid, memlock_soft,
                                                memlock_hard, files_soft, files_open, capabilities,
                                                user_namespace, cores, rdma_limits, cpu_quota,
                                                group, environment)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    SystemState, kernel, command_line, version, uptime_s, clock_s, virtual_machine, modules, nodes,
    governors, overcommit, shm_bytes, files_open, files_max, neighbours, neighbours_max,
    neighbours_refused, memory_bytes, huge_page_bytes, huge_bytes_free, gpu_fault, gpus_permitted,
    verbs_library, own_addresses, firewall, routes, policy_rules, chosen_address, refused_address)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GidMove, where, address, type, before, after)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Rise, where, counter, amount)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Snapshot, format, host, token, ranks, process,
                                                others, system, ports, interfaces, pci, gpus, gaps,
                                                seconds, rises, moves)

namespace {

// So that sums of rises, which may come from anybody, fit.
constexpr int64_t kMaxRise = int64_t{1} << 50;

void add_rises(std::vector<Rise>& rises, const std::string& where, const Counters& before,
               const Counters& after) {
  for (const auto& [counter, value] : after) {
    const auto old = before.find(counter);
    if (old == before.end() || value <= old->second) continue;
    const auto amount = static_cast<uint64_t>(value) - static_cast<uint64_t>(old->second);
    rises.push_back({where, counter, static_cast<int64_t>(std::min(amount, uint64_t{kMaxRise}))});
  }
}

// Rows that are not where they were.
void add_moves(std::vector<GidMove>& moves, const RdmaPort& before, const RdmaPort& after) {
  const auto same = [](const GidRow& a, const GidRow& b) {
    return a.address == b.address && a.type == b.type && a.interface == b.interface;
  };
  for (const GidRow& old : before.gids) {
    const bool stays = std::any_of(after.gids.begin(), after.gids.end(), [&](const GidRow& row) {
      return same(row, old) && row.index == old.index;
    });
    if (stays) continue;
    const auto found = std::find_if(after.gids.begin(), after.gids.end(),
                                    [&](const GidRow& row) { return same(row, old); });
    moves.push_back({name_of(after), old.address, old.type, old.index,
                     found == after.gids.end() ? std::nullopt : std::optional(found->index)});
  }
}

void clean_texts(nlohmann::json& value) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    text = printable(text);
  } else if (value.is_structured()) {
    for (auto& member : value) clean_texts(member);
  }
}

void clean_name(std::string& name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("_.:@-", c)) c = '_';
}

void clean_keys(std::map<std::string, std::string>& values) {
  std::map<std::string, std::string> clean;
  for (const auto& [name, value] : values) {
    std::string cleaned_name = name;
    clean_name(cleaned_name);
    clean[cleaned_name] = value;
  }
  values = std::move(clean);
}

// What the parser says has the last word that it read, which may be long.
constexpr size_t kMaxWhy = 400;

Error refusal(const std::string& origin, const std::string& why) {
  return Error(ErrorCode::invalid_argument,
               fmt::format("{} is not a snapshot of ringwood doctor --snapshot: {}", origin,
                           why.substr(0, kMaxWhy)));
}

}  // namespace

std::string name_of(const RdmaPort& port) { return fmt::format("{}/{}", port.device, port.number); }

std::string to_text(const Snapshot& snapshot, int indent) {
  // Files of the kernel may contain any bytes.
  return nlohmann::json(snapshot).dump(indent, ' ', false,
                                       nlohmann::json::error_handler_t::replace);
}

Snapshot cleaned(const Snapshot& snapshot) {
  auto document = nlohmann::json::parse(to_text(snapshot));
  clean_texts(document);
  Snapshot clean = document.get<Snapshot>();
  for (RdmaPort& port : clean.ports) {
    for (std::string* name : {&port.device, &port.interface, &port.pci}) clean_name(*name);
    for (GidRow& gid : port.gids) clean_name(gid.interface);
  }
  for (NetInterface& interface : clean.interfaces) {
    for (std::string* name : {&interface.name, &interface.pci}) clean_name(*name);
  }
  for (Rise& one : clean.rises) one.amount = std::clamp<int64_t>(one.amount, 0, kMaxRise);
  for (PciDevice& device : clean.pci) {
    clean_name(device.address);
    for (std::string& bridge : device.bridges) clean_name(bridge);
  }
  for (Gpu& gpu : clean.gpus) {
    clean_name(gpu.pci);
    clean_keys(gpu.paths);
    clean_keys(gpu.peers);
  }
  return clean;
}

std::string to_text(const std::vector<Snapshot>& snapshots) {
  if (snapshots.size() == 1) return to_text(snapshots[0], 1) + "\n";
  return nlohmann::json(snapshots).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Snapshot from_text(const std::string& text, const std::string& origin) {
  const auto all = snapshots_from_text(text, origin);
  if (all.size() != 1)
    throw refusal(origin, fmt::format("it has {} hosts, and one was expected", all.size()));
  return all[0];
}

std::vector<Snapshot> snapshots_from_text(const std::string& text, const std::string& origin) {
  try {
    // Copies of a document, and texts of it, take the stack for each level.
    auto document = nlohmann::json::parse(text, [&](int depth, auto, auto&) {
      if (depth > kMaxDepth) throw refusal(origin, "its lists are nested too deeply");
      return true;
    });
    if (!document.is_array()) document = nlohmann::json::array({document});
    std::vector<Snapshot> all;
    for (const auto& one : document) {
      if (!one.is_object() || !one.contains("format") || !one.contains("host"))
        throw refusal(origin, "it has no format and no host");
      all.push_back(cleaned(one.get<Snapshot>()));
      if (all.back().format != 1)
        throw refusal(origin,
                      fmt::format("its format is {}, and this version reads 1", all.back().format));
    }
    return all;
  } catch (const nlohmann::json::exception& error) {
    throw refusal(origin, reason_of(error));
  }
}

std::string reason_of(const std::exception& error) {
  const std::string text = error.what();  // "[json.exception.parse_error.101] parse error at ..."
  const size_t begin = text.find("at line "), end = text.find(':', begin);
  if (dynamic_cast<const nlohmann::json::parse_error*>(&error) != nullptr && begin != text.npos)
    return "it is no JSON " + text.substr(begin, end - begin);
  const size_t mark = text.find("] ");
  return mark == text.npos ? text : text.substr(mark + 2);
}

Snapshot with_rises(const Snapshot& earlier, Snapshot later, double seconds) {
  later.seconds = seconds;
  later.rises.clear();
  later.moves.clear();
  for (const RdmaPort& port : later.ports) {
    for (const RdmaPort& old : earlier.ports)
      if (name_of(old) == name_of(port)) {
        add_rises(later.rises, name_of(port), old.counters, port.counters);
        add_moves(later.moves, old, port);
      }
  }
  if (earlier.system.neighbours_refused && later.system.neighbours_refused)
    add_rises(later.rises, kNeighbours, {{kTableFull, *earlier.system.neighbours_refused}},
              {{kTableFull, *later.system.neighbours_refused}});
  for (const NetInterface& interface : later.interfaces) {
    const NetInterface* old = find_interface(earlier, interface.name);
    if (old == nullptr) continue;
    add_rises(later.rises, interface.name, old->counters, interface.counters);
    if (old->carrier_changes && interface.carrier_changes)
      add_rises(later.rises, interface.name, {{"carrier_changes", *old->carrier_changes}},
                {{"carrier_changes", *interface.carrier_changes}});
  }
  return later;
}

const NetInterface* find_interface(const Snapshot& snapshot, const std::string& name) {
  for (const NetInterface& interface : snapshot.interfaces)
    if (interface.name == name) return &interface;
  return nullptr;
}

const PciDevice* find_pci(const Snapshot& snapshot, const std::string& address) {
  for (const PciDevice& device : snapshot.pci)
    if (device.address == address) return &device;
  return nullptr;
}

int64_t rise(const Snapshot& snapshot, const std::string& where, const std::string& counter) {
  for (const Rise& one : snapshot.rises)
    if (one.where == where && one.counter == counter) return one.amount;
  return 0;
}

}  // namespace ringwood::tools::doctor
