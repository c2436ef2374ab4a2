// The names by which drivers count a fact. Drivers agree on few of them, so a fact has a list of
// all that are known; a card that has none of a list cannot be judged, and gaps.h says so.
//
// Sources: Linux, drivers/infiniband/hw/{mlx5,bnxt_re,irdma,efa} and sw/rxe for ports;
// drivers/net/ethernet/{mellanox/mlx5,broadcom/bnxt,intel/ice} for interfaces. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

// Of ports: packets that were lost, came in a wrong order, or were sent again.
inline constexpr auto kLossCounters = std::to_array<const char*>({
    // mlx5
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans",
    "duplicate_request",
    // rxe
    "out_of_seq_request",
    "rcvd_seq_err",
    "completer_retry_err",
    "retry_exceeded_err",
    // bnxt_re
    "to_retransmits",
    "seq_err_naks_rcvd",
    "max_retry_exceeded",
    "oos_drop_count",
    "dup_req",
    // irdma, third generation
    "Nak Sequence Error",
    "Nak Sequence Error Implied",
    "RTO",
    "Rcvd Out of order packets",
    // efa
    "retrans_pkts",
    "retrans_timeout_events",
});

// Of ports: nothing was posted for what arrived.
inline constexpr auto kReceiverCounters = std::to_array<const char*>({
    "out_of_buffer", "rnr_nak_retry_err",   // mlx5
    "rcvd_rnr_err", "send_rnr_err",         // rxe
    "rnr_naks_rcvd", "rx_out_of_buffer",    // bnxt_re
    "RNR sent", "RNR received", "rx_drops"  // irdma; efa
});

// Of ports: marked packets, notifications sent, obeyed and ignored. mlx5, irdma, bnxt_re.
inline constexpr auto kMarkedCounters =
    std::to_array<const char*>({"np_ecn_marked_roce_packets", "RxECNMrkd", "rx_ecn_marked_pkts"});
inline constexpr auto kNotificationsSent =
    std::to_array<const char*>({"np_cnp_sent", "cnpSent", "tx_cnp_pkts"});
inline constexpr auto kNotificationsHandled =
    std::to_array<const char*>({"rp_cnp_handled", "cnpHandled", "rx_cnp_pkts"});
inline constexpr auto kNotificationsIgnored =
    std::to_array<const char*>({"rp_cnp_ignored", "cnpIgnored"});

// Of ports and interfaces: bits that arrived wrong.
inline constexpr auto kErrorCounters = std::to_array<const char*>({
    "symbol_error", "port_rcv_errors",
    "rx_crc_errors",  // the kernel's own
    "rx_crc_errors_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy",
    "rx_fcs_err_frames",  // bnxt_en
    "rx_pcs_symbol_err", "rx_fec_uncorrectable_blocks",
    "rx_crc_errors.nic",  // ice
});

// Of interfaces: an interface was too slow, or PCI did not take the data for 30 % of a second.
// outbound_pci_stalled_rd and _wr themselves are percentages of the last second.
inline constexpr auto kStallCounters =
    std::to_array<const char*>({"rx_out_of_buffer", "outbound_pci_stalled_rd_events",
                                "outbound_pci_stalled_wr_events", "outbound_pci_buffer_overflow"});

// Of ports and interfaces: the times that the link went down. mlx5, then bnxt_en.
inline constexpr auto kDownCounters =
    std::to_array<const char*>({"link_downed", "link_down_events_phy", "link_down_events"});

// Bytes that a port sent between two samples; 0: none, or it does not count them.
double sent_bytes(const Snapshot& snapshot, const std::string& port);
// Packets that a port sent and received between two samples; 0: none, or it does not count them.
int64_t packets_of(const Snapshot& snapshot, const std::string& port);
// Whether an interface's counter is of packets that the port threw away.
bool counts_discards(const std::string& counter);
// Whether a counter is of microseconds in which an interface was paused by others (true), or paused
// others (false); nullopt: it is another counter.
std::optional<bool> counts_pauses(const std::string& counter);
// The counter of bytes that an interface has sent with a priority.
std::string bytes_counter(const NetInterface& interface, int priority);

template <size_t n>
bool has_any(const Counters& counters, const std::array<const char*, n>& names) {
  for (const char* name : names)
    if (counters.contains(name)) return true;
  return false;
}

}  // namespace ringwood::tools::doctor
