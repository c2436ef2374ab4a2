// Counters that rise while a job runs: what is lost, paused, or waited for. They need two samples.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/doctor/rules/counter_names.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

// One in so many packets.
constexpr double kSomeLoss = 1e-5, kMuchLoss = 1e-3;
constexpr int64_t kSomeBytes = int64_t{1} << 20;  // less may be anybody's
constexpr int64_t kFew = 10;                      // such numbers happen at start and end of a job
// Of the time between the samples.
constexpr double kSomePause = 0.01, kMuchPause = 0.1;
constexpr int64_t kManyChanges = 20;

template <size_t n>
int64_t sum_of(const Snapshot& snapshot, const std::string& where,
               const std::array<const char*, n>& counters, std::string& text) {
  int64_t sum = 0;
  for (const char* counter : counters) {
    const int64_t amount = rise(snapshot, where, counter);
    if (amount == 0) continue;
    sum += amount;
    text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", counter, amount);
  }
  return sum;
}

std::string in_time(const Snapshot& snapshot) {
  return fmt::format(" in {:.3g} s", snapshot.seconds.value_or(0));
}

void look_loss(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort& port : snapshot.ports) {
    std::string text;
    const int64_t lost = sum_of(snapshot, name_of(port), kLossCounters, text);
    const int64_t packets = packets_of(snapshot, name_of(port));
    const double share = packets > 0 ? static_cast<double>(lost) / static_cast<double>(packets) : 1;
    if (lost < kFew || share < kSomeLoss) continue;
    const std::string of = packets > 0 ? fmt::format(" of {} packets", packets) : "";
    const double sent = sent_bytes(snapshot, name_of(port));
    const std::string rate = sent > 0 && snapshot.seconds.value_or(0) > 0
                                 ? fmt::format(", {:.3g} GB/s sent", sent / 1e9 / *snapshot.seconds)
                                 : "";
    sink.add(share < kMuchLoss ? Severity::warning : Severity::error, snapshot.host,
             fmt::format("{}: {}{}{}{}", name_of(port), text, of, in_time(snapshot), rate),
             {"ringwood doctor --all-hosts  # is PFC on, and on the priority that we send with?",
              fmt::format("ethtool -S {} | grep -E 'discard|crc|symbol'", port.interface)});
  }
}

void look_discards(const Snapshot& snapshot, Sink& sink) {
  for (const NetInterface& interface : snapshot.interfaces) {
    std::string text;
    int64_t lost = 0;
    for (const Rise& one : snapshot.rises) {
      if (one.where != interface.name || !counts_discards(one.counter)) continue;
      lost += one.amount;
      text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", one.counter, one.amount);
    }
    if (lost >= kFew)
      sink.add(snapshot.host, fmt::format("{}: {}{}", interface.name, text, in_time(snapshot)),
               {fmt::format("mlnx_qos -i {}  # buffers, PFC", interface.name)});
  }
}

void look_storm(const Snapshot& snapshot, Sink& sink) {
  if (!snapshot.seconds || *snapshot.seconds <= 0) return;
  for (const Rise& one : snapshot.rises) {
    if (one.counter.find("pause_storm") != std::string::npos) {
      sink.add(Severity::error, snapshot.host,
               fmt::format("{}: {} +{}{}", one.where, one.counter, one.amount, in_time(snapshot)));
      continue;
    }
    // Microseconds in which the port was told to wait, or told its neighbour.
    const auto paused = counts_pauses(one.counter);
    if (!paused) continue;
    const bool received = *paused;
    const double share = static_cast<double>(one.amount) / 1e6 / *snapshot.seconds;
    if (share < kSomePause) continue;
    sink.add(share < kMuchPause ? Severity::warning : Severity::error, snapshot.host,
             fmt::format("{} {} {:.1f} % of the time ({}: {:.0f} us per second)", one.where,
                         received ? "is paused by the network" : "pauses the network", 100 * share,
                         one.counter, static_cast<double>(one.amount) / *snapshot.seconds),
             received ? std::vector<std::string>{"ringwood doctor --all-hosts --watch 10  # names "
                                                 "the host that pauses the others"}
                      : std::vector<std::string>{});
  }
}

void look_receiver(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort& port : snapshot.ports) {
    std::string text;
    const int64_t sum = sum_of(snapshot, name_of(port), kReceiverCounters, text) +
                        sum_of(snapshot, port.interface, kStallCounters, text);
    if (sum >= kFew)
      sink.add(snapshot.host, fmt::format("{}: {}{}", name_of(port), text, in_time(snapshot)));
  }
}

void look_notified(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort& port : snapshot.ports) {
    std::string ignored_text;
    const auto count = [&](const auto& names) {
      return sum_of(snapshot, name_of(port), names, ignored_text);
    };
    const int64_t marked = count(kMarkedCounters), sent = count(kNotificationsSent);
    const int64_t ignored = count(kNotificationsIgnored);
    if (marked >= kFew && sent == 0)
      sink.add(snapshot.host,
               fmt::format("{}: {} packets were marked by ECN, and no notification was sent{}",
                           name_of(port), marked, in_time(snapshot)));
    if (ignored > 0)
      sink.add(snapshot.host, fmt::format("{}: {} notifications were ignored{}", name_of(port),
                                          ignored, in_time(snapshot)));
  }
}

// The priorities in which the interface sent during the samples, against the one that we expect.
void look_queue_of(const Snapshot& snapshot, const RdmaPort& port, const NetInterface& interface,
                   Sink& sink) {
  const Marking marking = marking_of(snapshot, port);
  if (!marking.priority) return;
  int64_t all = 0, most = 0;
  int busiest = -1;
  for (int priority = 0; priority < 8; ++priority) {
    const int64_t sent = rise(snapshot, interface.name, bytes_counter(interface, priority));
    all += sent;
    if (sent > most) busiest = priority;
    most = std::max(most, sent);
  }
  const int64_t ours = rise(snapshot, interface.name, bytes_counter(interface, *marking.priority));
  if (all < kSomeBytes || busiest == *marking.priority || 2 * ours > all) return;
  sink.add(
      snapshot.host,
      fmt::format("{} sent {} of {} bytes with priority {}; ours is {} (DSCP {}, {}) with {}",
                  interface.name, most, all, busiest, *marking.priority, marking.dscp,
                  marking.origin, ours),
      {fmt::format("cat /sys/class/infiniband/{}/tc/{}/traffic_class", port.device, port.number),
       fmt::format("mlnx_qos -i {}", interface.name)});
}

void look_queue(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot))
    for (const NetInterface* interface : carriers(snapshot, *port))
      look_queue_of(snapshot, *port, *interface, sink);
}

// Bytes that an interface sent, of all priorities or as the kernel counts them.
int64_t bytes_of(const Snapshot& snapshot, const NetInterface& interface) {
  int64_t all = 0;
  for (int priority = 0; priority < 8; ++priority)
    all += rise(snapshot, interface.name, bytes_counter(interface, priority));
  return std::max({all, rise(snapshot, interface.name, "tx_bytes_phy"),
                   rise(snapshot, interface.name, "tx_bytes")});
}

void look_uneven(const Snapshot& snapshot, Sink& sink) {
  constexpr double kTooMuch = 1.5;  // of a member's even share
  for (const RdmaPort* port : rails(snapshot)) {
    const NetInterface* own = find_interface(snapshot, port->interface);
    const auto members = carriers(snapshot, *port);
    if (own == nullptr || !own->bond || own->bond->mode == "active-backup") continue;
    int64_t all = 0, most = 0;
    std::string text;
    for (const NetInterface* member : members) {
      const int64_t sent = bytes_of(snapshot, *member);
      all += sent;
      most = std::max(most, sent);
      text += fmt::format("{}{} sent {}", text.empty() ? "" : ", ", member->name, sent);
    }
    const double even = static_cast<double>(all) / static_cast<double>(members.size());
    if (members.size() < 2 || all < kSomeBytes || static_cast<double>(most) < kTooMuch * even)
      continue;
    sink.add(snapshot.host,
             fmt::format("{} ({}): {} bytes{}", own->name, name_of(*port), text, in_time(snapshot)),
             {fmt::format("cat /sys/class/net/{}/bonding/xmit_hash_policy  # layer3+4 is best",
                          own->name)});
  }
}

constexpr double kDay_s = 86400;

// Links of machines that were started a few times have changed as often; in a year more is usual.
bool changes_often(const Snapshot& snapshot, int64_t ever) {
  return ever >= kManyChanges && static_cast<double>(ever) >= snapshot.system.uptime_s / kDay_s;
}

// " in 3 days"; "": unknown.
std::string since_the_start(const Snapshot& snapshot) {
  const double uptime_s = snapshot.system.uptime_s;
  if (uptime_s <= 0) return {};
  return uptime_s < 2 * kDay_s ? fmt::format(" in {:.0f} minutes", uptime_s / 60)
                               : fmt::format(" in {:.0f} days", uptime_s / kDay_s);
}

struct Changes {
  int64_t now = 0, ever = 0;
};

// The kernel counts each way; the card counts the times that it went down, short ones as well.
Changes changes_of(const Snapshot& snapshot, const NetInterface& interface) {
  Changes changes{rise(snapshot, interface.name, "carrier_changes"),
                  interface.carrier_changes.value_or(0)};
  const auto take = [&](const std::string& where, const Counters& counters) {
    for (const char* name : kDownCounters) {
      const auto found = counters.find(name);
      if (found == counters.end()) continue;
      changes.now = std::max(changes.now, 2 * rise(snapshot, where, name));
      changes.ever = std::max(changes.ever, found->second);
    }
  };
  take(interface.name, interface.counters);
  for (const RdmaPort& port : snapshot.ports)
    if (port.interface == interface.name) take(name_of(port), port.counters);
  return changes;
}

bool carries_a_rail(const Snapshot& snapshot, const std::string& interface) {
  for (const RdmaPort* port : rails(snapshot))
    for (const NetInterface* one : carriers(snapshot, *port))
      if (one->name == interface) return true;
  return is_rail(snapshot, interface);
}

void look_flapping(const Snapshot& snapshot, Sink& sink) {
  for (const NetInterface& interface : snapshot.interfaces) {
    const bool rail = carries_a_rail(snapshot, interface.name);
    if (!rail && !interface.physical) continue;
    const Changes changes = changes_of(snapshot, interface);
    const int64_t now = changes.now, ever = changes.ever;
    if (now == 0 && !changes_often(snapshot, ever)) continue;
    // Of other interfaces beside rails, a cable may have been pulled on purpose.
    const bool ours = rail || snapshot.ports.empty();
    const Severity severity = !ours     ? Severity::note
                              : now > 0 ? Severity::error
                                        : Severity::warning;
    const std::string what = now > 0 ? fmt::format("the link of {} went {} times{}", interface.name,
                                                   now, in_time(snapshot))
                                     : fmt::format("the link of {} has gone up or down {} times{}",
                                                   interface.name, ever, since_the_start(snapshot));
    sink.add(severity, snapshot.host, what,
             {fmt::format("ethtool -m {}  # optics: power, temperature", interface.name),
              fmt::format("dmesg | grep {}", interface.name)});
  }
}

void look_errors(const Snapshot& snapshot, Sink& sink) {
  std::vector<std::string> places;
  for (const RdmaPort& port : snapshot.ports) places.push_back(name_of(port));
  for (const NetInterface& interface : snapshot.interfaces) places.push_back(interface.name);
  for (const std::string& where : places) {
    std::string text;
    if (sum_of(snapshot, where, kErrorCounters, text) > 0)
      sink.add(snapshot.host, fmt::format("{}: {}{}", where, text, in_time(snapshot)));
  }
}

constexpr Rule kRules[] = {
    {.id = "fabric-loss",
     .severity = Severity::warning,
     .title = "packets are lost, reordered or sent again",
     .why = "An RDMA card sends everything after a lost packet again. At 1 % of loss a tenth to a "
            "quarter of the rate is left. An error from one packet in a thousand.",
     .fix = "PFC and ECN on the priority that we send with, end to end; then cables and buffers",
     .where = Where::rdma,
     .needs = {"second-sample", "hw-counters", "loss-counters"},
     .look = look_loss},
    {.id = "port-discards",
     .severity = Severity::warning,
     .title = "the port throws received packets away",
     .why = "Its buffers are full: a receiver that is too slow, without flow control that works.",
     .fix = "flow control on that priority, larger buffers, a look at PCI and memory nodes",
     .needs = {"second-sample", "ethtool-statistics"},
     .look = look_discards},
    {.id = "pause-storm",
     .severity = Severity::warning,
     .title = "a port is paused, or pauses others, more than 1 % of the time",
     .why = "One slow receiver pauses its switch, which pauses all that send to it. A port that "
            "sends pauses is the slow one; a port that receives them is a victim.",
     .fix = "find the host that sends the pauses; its PCI link, memory node or driver is slow",
     .where = Where::rdma,
     .needs = {"second-sample", "ethtool-statistics", "pause-counters"},
     .look = look_storm},
    {.id = "receiver-slow",
     .severity = Severity::warning,
     .title = "a receiver cannot take what arrives",
     .why = "No receive was posted in time (out_of_buffer, rnr), or PCI did not take the data "
            "(outbound_pci_stalled_rd_events, _wr_events: seconds in which it stalled for 30 %).",
     .fix = "look at pcie-link, numa-far and iommu-translating on this host",
     .where = Where::rdma,
     .needs = {"second-sample", "hw-counters", "receiver-counters"},
     .look = look_receiver},
    {.id = "ecn-unanswered",
     .severity = Severity::warning,
     .title = "congestion is marked, and nobody slows down",
     .why =
         "Switches mark packets; the receiver must send notifications (CNP), and the sender must "
         "obey. If either does not, only PFC is left.",
     .fix = "enable roce_np and roce_rp on our priority; CNPs with DSCP 48, priority 6",
     .where = Where::rdma,
     .needs = {"second-sample", "hw-counters", "ecn-counters"},
     .look = look_notified},
    {.id = "queue-unexpected",
     .severity = Severity::error,
     .title = "traffic leaves with another priority than ours",
     .why = "Counted bytes of each priority tell where packets really go: a traffic class that the "
            "host forces, a trust that is not dscp, or a mapping that differs.",
     .fix = "compare traffic class, trust and dscp2prio with those of a host that is well",
     .where = Where::rdma,
     .needs = {"second-sample", "ethtool-statistics", "priority-counters", "dcb", "trust"},
     .look = look_queue},
    {.id = "bond-uneven",
     .severity = Severity::warning,
     .title = "one member of a bond carries most of its traffic",
     .why = "The bond sends each flow through one member, and its hash saw too few of them, or "
            "addresses only: the other members idle.",
     .fix = "more queue pairs (RINGWOOD_VERBS_QPS), and hash policy layer3+4",
     .where = Where::rdma,
     .needs = {"second-sample", "ethtool-statistics"},
     .look = look_uneven},
    {.id = "link-flapping",
     .severity = Severity::warning,
     .title = "a link goes up and down",
     .why =
         "Each time its rail is dropped, GIDs vanish, and traffic takes other rails or TCP. An "
         "error if it happened while doctor watched; a warning from 20 times since the start, if "
         "that is once a day or more. A note where it is no rail's link.",
     .fix = "cable, optics, switch port",
     .needs = {"carrier-changes"},
     .look = look_flapping},
    {.id = "link-errors",
     .severity = Severity::warning,
     .title = "bits arrive wrong",
     .why = "Errors that FEC did not repair cost packets, and each of them a retransmission.",
     .fix = "clean or change cable and optics; compare FEC with the other end",
     .needs = {"second-sample"},
     .look = look_errors},
};

}  // namespace

std::span<const Rule> counter_rules() { return kRules; }

}  // namespace ringwood::tools::doctor
