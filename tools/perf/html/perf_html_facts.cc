#include "tools/perf/html/perf_html_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "tools/command/text_files.h"
#include "tools/matrix/matrix_report.h"
#include "tools/perf/html/perf_sweeps.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// "3: 12.1 GB sent, 11.9 GB received", of the priorities that carried something.
std::string priorities(const std::map<std::string, int64_t>& values) {
  std::string text;
  for (int priority = 0; priority < 8; ++priority) {
    const int64_t sent = value_of(values, fmt::format("tx_prio{}_bytes", priority)).value_or(0);
    const int64_t received = value_of(values, fmt::format("rx_prio{}_bytes", priority)).value_or(0);
    if (sent + received > 0)
      text += fmt::format("{}{}: {} sent, {} received", text.empty() ? "" : "; ", priority,
                          print_bytes(sent), print_bytes(received));
  }
  return text;
}

// A rail that carried nothing, or less than its neighbours, is one of these lines.
void add_traffic(HtmlReport& report, const RunFacts& facts) {
  std::vector<std::vector<std::string>> rows;
  for (const HostCounters& one : facts.hosts) {
    for (const auto& [device, values] : one.traffic) {
      std::vector<std::string>& row = rows.emplace_back(std::vector{one.host, device});
      for (const char* counter : {"sent_bytes", "received_bytes"}) {
        const auto bytes = value_of(values, counter);
        row.push_back(bytes ? print_bytes(*bytes) : "-");
      }
      row.push_back(priorities(values));
    }
  }
  if (rows.empty()) return;
  report.add_text("What each port and interface carried while the run lasted, whoever sent it:");
  report.add_table({"host", "device", "sent", "received", "by priority"}, rows);
}

}  // namespace

void add_verdicts(HtmlReport& report, const std::vector<Row>& rows, const RunFacts& facts,
                  const std::vector<PerfFinding>& findings, const std::string& nothing) {
  int64_t wrong = 0;
  bool checked = false;
  const Row* best = nullptr;
  for (const Row& row : rows) {
    wrong += row.wrong.value_or(0);
    checked |= row.wrong.has_value();
    if (best == nullptr || row.busbw_gbs > best->busbw_gbs) best = &row;
  }
  const bool well = wrong == 0 && facts.failed.empty() && findings.empty();
  if (best != nullptr && best->bytes > 0)
    report.add_text(
        fmt::format("{}{} reaches {:.4g} GB/s of bus bandwidth at {}{}.",
                    checked && wrong == 0 ? "Every result was right. " : "", best->collective,
                    best->busbw_gbs, size_text(static_cast<double>(best->bytes)),
                    !best->limit_us                 ? ""
                    : *best->limit_percent() >= 100 ? ", all that memory and links allowed"
                                                    : fmt::format(", {:.0f} % of what memory and "
                                                                  "links allow",
                                                                  *best->limit_percent())),
        well ? Tone::good : Tone::plain);
  report.add_heading("What to look at first");
  if (wrong > 0)
    report.add_text(fmt::format("{} elements of the results were wrong.", wrong), Tone::bad);
  for (const std::string& why : facts.failed) report.add_text(why, Tone::bad);
  for (const PerfFinding& one : findings) report.add_text(one.sentence, Tone::warning);
  if (!findings.empty() && facts.hosts.size() > 1)
    report.add_text("Commands of ringwood are to be started on the same hosts as this one was.");
  if (well) report.add_text(nothing);
}

void add_counters(HtmlReport& report, const RunFacts& facts) {
  std::vector<std::vector<std::string>> rows;
  for (const HostCounters& one : facts.hosts)
    for (const auto& [device, values] : one.risen)
      for (const auto& [counter, rise] : values)
        rows.push_back({one.host, device, counter, fmt::format("+{}", rise)});
  report.add_heading("Network counters");
  if (rows.empty()) {
    report.add_text(fmt::format(
        "On {} no counter of loss, reordering or congestion has risen: RDMA ports, network "
        "interfaces and TCP were read before and after.",
        facts.hosts.size() == 1 ? "this host" : fmt::format("{} hosts", facts.hosts.size())));
  } else {
    report.add_text("These have risen while the run lasted, whoever sent the packets.",
                    Tone::warning);
    report.add_table({"host", "device", "counter", "rise"}, rows);
  }
  add_traffic(report, facts);
}

void add_limits(HtmlReport& report, const RunFacts& facts) {
  if (facts.copy_rates.empty()) return;
  report.add_heading("What the limit is made of");
  if (facts.link_rate > 0)
    report.add_text(fmt::format(
        "Between hosts {:.4g} GB/s each way at once, of the slowest host, by messages of several "
        "MiB to its neighbours.",
        facts.link_rate / 1e9));
  PlotSeries copies{"copied by each rank while all do", {}, {}, false, -1};
  for (const auto& [bytes, rate] : facts.copy_rates) {
    copies.x.push_back(static_cast<double>(bytes));
    copies.y.push_back(rate / 1e9);
  }
  report.add_plot({"Memory copies",
                   {"size of the copy", AxisUnit::bytes, 2},
                   {"GB/s", AxisUnit::number, 0},
                   {copies},
                   "memcpy of a block as large as the operation's, in the same run."});
}

Matrix read_matrix(const std::string& file) { return parse_all("--matrix", file, parse_matrix); }

void add_matrix(HtmlReport& report, const Matrix& matrix) {
  report.add_heading("Pairs of hosts");
  report.add_text("As ringwood matrix measured them, before this run.");
  add_to_report(matrix, report);
}

}  // namespace ringwood::tools
