#include "tools/doctor/present.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/counted.h"
#include "tools/doctor/rules/facts.h"
#include "tools/matrix/matrix_report.h"

namespace ringwood::tools::doctor {
namespace {

constexpr size_t kWidth = 96;
constexpr size_t kMaxNamed = 64;  // hosts in a sentence

const char* colour_of(Severity severity) {
  switch (severity) {
    case Severity::note: return "\033[36m";
    case Severity::warning: return "\033[33m";
    case Severity::error: return "\033[1;31m";
  }
  return "";
}

// Lines of at most kWidth, broken at blanks; all but the first begin with the indent.
std::string wrapped(const std::string& text, size_t indent) {
  std::string out, line;
  const size_t room = kWidth - indent;
  for (size_t at = 0; at < text.size();) {
    const size_t blank = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, blank - at);
    if (!line.empty() && line.size() + 1 + word.size() > room) {
      out += fmt::format("{}\n{:{}}", line, "", indent);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = blank + 1;
  }
  return out + line;
}

size_t count(const Diagnosis& diagnosis, Severity severity) {
  return static_cast<size_t>(
      std::count_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                    [&](const Finding& one) { return one.severity == severity; }));
}

std::string summary_of(const Outcome& outcome) {
  const Diagnosis& found = outcome.diagnosis;
  const size_t notes = count(found, Severity::note);
  return fmt::format("{}: {}, {}{}, {} not checked{}", counted(outcome.hosts.size(), "host"),
                     counted(count(found, Severity::error), "error"),
                     counted(count(found, Severity::warning), "warning"),
                     notes ? ", " + counted(notes, "note") : "",
                     counted(found.not_checked.size(), "thing"),
                     outcome.complete ? "" : "; not all hosts answered");
}

// A row for each port: what it is, and the GID and marking that a job would get.
std::vector<std::vector<std::string>> rail_rows(const Snapshots& hosts) {
  std::vector<std::vector<std::string>> rows;
  for (const Snapshot& host : hosts) {
    for (const RdmaPort& port : host.ports) {
      std::string why;
      const auto gid = is_roce(port) ? chosen_gid(host, port, why) : std::nullopt;
      const Marking marking = marking_of(host, port);
      rows.push_back(
          {host.host, name_of(port), port.state,
           is_software(port) || !port.rate_gbits ? "unknown"
                                                 : fmt::format("{:g} Gbit/s", *port.rate_gbits),
           port.path_mtu ? std::to_string(*port.path_mtu) : "unknown", port.interface,
           gid ? fmt::format("[{}] {}", gid->index, verbs::to_string(gid->bytes)) : "none",
           gid ? print_choice(host, *gid) : "",
           fmt::format("{} -> {}", marking.dscp,
                       marking.priority ? std::to_string(*marking.priority) : "?")});
    }
  }
  return rows;
}

const std::vector<std::string> kRailHeader = {"host", "port",      "state",
                                              "rate", "path MTU",  "interface",
                                              "GID",  "chosen as", "DSCP -> priority"};

std::string aligned(const std::vector<std::string>& header,
                    const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t column = 0; column < header.size(); ++column) {
    size_t width = header[column].size();
    for (const auto& row : rows) width = std::max(width, row[column].size());
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line = "  ";
    for (size_t column = 0; column < row.size(); ++column)
      line += fmt::format("{:<{}}  ", row[column], widths[column]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add(header);
  for (const auto& row : rows) add(row);
  return text;
}

std::string print_finding(const Finding& one, bool colours) {
  const std::string severity = to_string(one.severity);
  std::string text = fmt::format("  {}{:<8}{}{}\n", colours ? colour_of(one.severity) : "",
                                 severity, colours ? "\033[0m" : "", one.id);
  text += fmt::format("          {}\n", wrapped(one.evidence, 10));
  text += fmt::format("          fix: {}\n", wrapped(one.fix, 15));
  return text;
}

// The same thing on many hosts is one line.
std::string print_not_checked(const std::vector<NotChecked>& all) {
  std::map<std::pair<std::string, std::string>, std::vector<const NotChecked*>> by_reason;
  for (const NotChecked& one : all) by_reason[{one.what, one.reason}].push_back(&one);
  std::string text;
  for (const auto& [key, members] : by_reason) {
    std::set<std::string> rules, hosts;
    for (const NotChecked* one : members) {
      rules.insert(one->rules.begin(), one->rules.end());
      if (!one->host.empty()) hosts.insert(one->host);
    }
    std::string names = rules.size() > 6 ? fmt::format("{} rules", rules.size())
                                         : fmt::format("{}", fmt::join(rules, ", "));
    // Which hosts do not answer matters more than how many.
    const bool named = key.first == "host" && !hosts.empty() && hosts.size() <= kMaxNamed;
    const std::string where = named               ? fmt::format(" on {}", fmt::join(hosts, ", "))
                              : hosts.size() > 1  ? fmt::format(" on {} hosts", hosts.size())
                              : hosts.size() == 1 ? " on " + *hosts.begin()
                                                  : "";
    text +=
        "  " + wrapped(fmt::format("{}{}: {} ({})", key.first, where, key.second, names), 4) + "\n";
  }
  return text;
}

nlohmann::json to_json(const Snapshot& host) {
  nlohmann::json one = {{"host", host.host},
                        {"ranks", host.ranks},
                        {"kernel", host.system.kernel},
                        {"version", host.system.version},
                        {"address", host.system.chosen_address},
                        {"rails", nlohmann::json::array()}};
  for (const auto& row : rail_rows({host}))
    one["rails"].push_back({{"port", row[1]},
                            {"state", row[2]},
                            {"rate", row[3]},
                            {"path_mtu", row[4]},
                            {"interface", row[5]},
                            {"gid", row[6]},
                            {"gid_chosen_as", row[7]},
                            {"dscp_to_priority", row[8]}});
  return one;
}

nlohmann::json to_json(const Comparison& since) {
  const auto list = [](const std::vector<Finding>& findings) {
    nlohmann::json all = nlohmann::json::array();
    for (const Finding& one : findings)
      all.push_back({{"id", one.id}, {"severity", to_string(one.severity)}, {"host", one.host}});
    return all;
  };
  nlohmann::json changes = nlohmann::json::array();
  for (const Change& one : since.changes)
    changes.push_back(
        {{"host", one.host}, {"what", one.what}, {"before", one.before}, {"after", one.after}});
  return {{"file", since.file},
          {"changes", std::move(changes)},
          {"new", list(since.found)},
          {"gone", list(since.gone)}};
}

void add_to_page(const Comparison& since, HtmlReport& page) {
  page.add_heading("Since " + since.file);
  std::vector<std::vector<std::string>> rows;
  for (const Change& one : since.changes)
    rows.push_back({one.host, one.what, one.before, one.after});
  for (const Finding& one : since.found) rows.push_back({one.host, one.id, "", "found"});
  for (const Finding& one : since.gone) rows.push_back({one.host, one.id, "found", ""});
  if (rows.empty())
    page.add_text("Nothing has changed but counters and clocks.", Tone::good);
  else
    page.add_table({"host", "what", "before", "now"}, rows);
}

}  // namespace

int exit_code_of(const Diagnosis& diagnosis, bool complete) {
  if (count(diagnosis, Severity::error) > 0) return 2;
  if (!complete || diagnosis.blind) return 3;
  return count(diagnosis, Severity::warning) > 0 ? 1 : 0;
}

std::string print_text(const Outcome& outcome, bool colours) {
  std::string text = summary_of(outcome) + "\n";
  if (const auto rows = rail_rows(outcome.hosts); !rows.empty())
    text += "\n" + aligned(kRailHeader, rows);
  std::vector<std::string> hosts;
  for (const Finding& one : outcome.diagnosis.findings)
    if (std::find(hosts.begin(), hosts.end(), one.host) == hosts.end()) hosts.push_back(one.host);
  for (const std::string& host : hosts) {
    text += fmt::format("\n{}\n", host);
    for (const Finding& one : outcome.diagnosis.findings)
      if (one.host == host) text += print_finding(one, colours);
  }
  if (outcome.probe.matrix) text += "\n" + tools::print_table(*outcome.probe.matrix);
  if (outcome.probe.by_rail)
    text += "\nEach rail by itself\n" + tools::print_table(*outcome.probe.by_rail);
  if (!outcome.diagnosis.not_checked.empty())
    text += "\nnot checked\n" + print_not_checked(outcome.diagnosis.not_checked);
  if (outcome.since) text += print_text(*outcome.since);
  if (!outcome.diagnosis.findings.empty()) {
    const Finding& first = outcome.diagnosis.findings.front();
    text += "\n" +
            wrapped(fmt::format("First: {} of {}. --explain {} tells why, --fix prints the "
                                "commands.",
                                first.id, first.host, first.id),
                    0) +
            "\n";
  }
  return text;
}

std::string print_json(const Outcome& outcome) {
  nlohmann::json all = {{"findings", nlohmann::json::array()},
                        {"not_checked", nlohmann::json::array()},
                        {"hosts", nlohmann::json::array()},
                        {"exit_code", exit_code_of(outcome.diagnosis, outcome.complete)}};
  for (const Finding& one : outcome.diagnosis.findings)
    all["findings"].push_back({{"id", one.id},
                               {"severity", to_string(one.severity)},
                               {"evidence", one.evidence},
                               {"fix", one.fix},
                               {"host", one.host},
                               {"commands", one.commands}});
  for (const NotChecked& one : outcome.diagnosis.not_checked)
    all["not_checked"].push_back(
        {{"what", one.what}, {"reason", one.reason}, {"rules", one.rules}, {"host", one.host}});
  for (const Snapshot& host : outcome.hosts) all["hosts"].push_back(to_json(host));
  if (outcome.probe.matrix)
    all["matrix"] = nlohmann::json::parse(print_json(*outcome.probe.matrix));
  if (outcome.probe.by_rail)
    all["matrix_by_rail"] = nlohmann::json::parse(print_json(*outcome.probe.by_rail));
  if (outcome.since) all["since"] = to_json(*outcome.since);
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string print_commands(const Diagnosis& diagnosis) {
  std::string text =
      "# What would repair the findings. Nothing of it has been run: read it first.\n";
  std::string host;
  for (const Finding& one : diagnosis.findings) {
    if (one.host != host) text += fmt::format("\n# on {}\n", one.host);
    host = one.host;
    // An evidence of several lines stays a comment.
    std::string evidence = one.evidence;
    std::replace(evidence.begin(), evidence.end(), '\n', ' ');
    text += fmt::format("# {}: {}\n", one.id, evidence);
    if (one.commands.empty()) text += fmt::format("#   {}\n", one.fix);
    for (const std::string& command : one.commands) text += command + "\n";
  }
  return text;
}

HtmlReport make_page(const Outcome& outcome) {
  HtmlReport page({"Ringwood doctor", summary_of(outcome), {}});
  page.add_heading("Findings");
  if (outcome.diagnosis.findings.empty()) page.add_text("Nothing was found.", Tone::good);
  std::vector<std::vector<std::string>> rows;
  for (const Finding& one : outcome.diagnosis.findings)
    rows.push_back({to_string(one.severity), one.host, one.id, one.evidence, one.fix});
  if (!rows.empty()) page.add_table({"severity", "host", "rule", "evidence", "fix"}, rows);
  if (const auto rails = rail_rows(outcome.hosts); !rails.empty()) {
    page.add_heading("Rails");
    page.add_table(kRailHeader, rails);
  }
  if (outcome.since) add_to_page(*outcome.since, page);
  if (outcome.probe.matrix) add_to_report(*outcome.probe.matrix, page);
  if (outcome.probe.by_rail) {
    page.add_heading("Each rail by itself");
    add_to_report(*outcome.probe.by_rail, page);
  }
  page.add_heading("Not checked");
  rows.clear();
  for (const NotChecked& one : outcome.diagnosis.not_checked)
    rows.push_back({one.host, one.what, one.reason, fmt::format("{}", fmt::join(one.rules, ", "))});
  page.add_table({"host", "what", "reason", "rules"}, rows);
  return page;
}

std::string explain(const Rule& rule) {
  std::string text =
      fmt::format("{} ({}): {}\n\n{}\n\nfix: {}\n", rule.id, to_string(rule.severity), rule.title,
                  wrapped(rule.why, 0), wrapped(rule.fix, 5));
  std::vector<std::string> needs, covers;
  for (const char* one : rule.needs)
    if (one != nullptr) needs.emplace_back(one);
  for (const char* one : rule.covers)
    if (one != nullptr) covers.emplace_back(one);
  if (!needs.empty()) text += fmt::format("needs: {}\n", fmt::join(needs, ", "));
  if (!covers.empty()) text += fmt::format("in place of: {}\n", fmt::join(covers, ", "));
  const char* where = rule.where == Where::rdma  ? "hosts with RDMA devices"
                      : rule.where == Where::gpu ? "hosts with GPUs"
                                                 : "every host";
  text += fmt::format("looked for on: {}{}\n", where, rule.compare ? ", compared" : "");
  return text;
}

std::string print_rules() {
  std::string text = "| rule | severity | what is wrong |\n|---|---|---|\n";
  for (const Rule& rule : rules())
    text += fmt::format("| `{}` | {} | {} |\n", rule.id, to_string(rule.severity), rule.title);
  return text;
}

}  // namespace ringwood::tools::doctor
