#include "tools/doctor/rules/counter_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/collect/tree.h"

namespace ringwood::tools::doctor {
namespace {

bool ends_with(const std::string& text, const std::string& ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

}  // namespace

int64_t packets_of(const Snapshot& snapshot, const std::string& port) {
  // A port may have several of them, which count the same packets.
  constexpr std::array<std::array<const char*, 2>, 4> kNames = {{
      {"port_xmit_packets", "port_rcv_packets"},  // mlx5
      {"sent_pkts", "rcvd_pkts"},                 // rxe
      {"tx_pkts", "rx_pkts"},                     // bnxt_re, efa
      {"TxUDP", "RxUDP"},                         // irdma
  }};
  for (const auto& [sent, received] : kNames) {
    const int64_t packets = rise(snapshot, port, sent) + rise(snapshot, port, received);
    if (packets > 0) return packets;
  }
  return 0;
}

double sent_bytes(const Snapshot& snapshot, const std::string& port) {
  // In words of four bytes, as InfiniBand's port counters are.
  if (const int64_t words = rise(snapshot, port, "port_xmit_data"); words > 0)
    return 4 * static_cast<double>(words);
  return static_cast<double>(rise(snapshot, port, "tx_bytes"));
}

bool counts_discards(const std::string& counter) {
  constexpr std::array kNames = {"rx_discards_phy",  "tx_discards_phy",        "rx_missed_errors",
                                 "rx_fifo_errors",   "rx_total_ring_discards", "rx_stat_discard",
                                 "rx_roce_discards", "rx_dropped.nic"};
  return std::find(kNames.begin(), kNames.end(), counter) != kNames.end() ||
         (begins_with(counter, "rx_prio") && ends_with(counter, "_discards")) ||
         begins_with(counter, "rx_discard_packets_cos");
}

std::optional<bool> counts_pauses(const std::string& counter) {
  if (ends_with(counter, "_pause_duration")) return begins_with(counter, "rx_");
  if (begins_with(counter, "pfc_pri") && ends_with(counter, "_duration_us"))
    return counter.find("_rx_") != counter.npos;
  return std::nullopt;
}

std::string bytes_counter(const NetInterface& interface, int priority) {
  const std::string other = fmt::format("tx_bytes_pri{}", priority);  // bnxt_en
  return interface.counters.contains(other) ? other : fmt::format("tx_prio{}_bytes", priority);
}

}  // namespace ringwood::tools::doctor
