// A diagnosis for people, for scripts, and as a page. Pure functions, but for what they return.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/changes.h"
#include "tools/doctor/probe.h"
#include "tools/doctor/rules/rules.h"
#include "tools/report/html_report.h"

namespace ringwood::tools::doctor {

// 2 errors; else 3 if hosts did not answer or nothing could be read; else 1 warnings; else 0.
int exit_code_of(const Diagnosis& diagnosis, bool complete);

struct Outcome {
  Snapshots hosts;
  Diagnosis diagnosis;
  ProbeResult probe;
  bool complete = true;             // false: a host did not answer
  std::optional<Comparison> since;  // of --against
};

// Hosts, rails and findings; `colours` for a terminal.
std::string print_text(const Outcome& outcome, bool colours);
// {"findings": [{id, severity, evidence, fix, host, commands}], "not_checked": [{what, reason,
//  rules, host}], "hosts": [...], "exit_code": N}, with --against "since": {"file", "changes":
// [{host, what, before, after}], "new": [{id, severity, host}], "gone": likewise}
std::string print_json(const Outcome& outcome);
// The commands that repair what was found, as a script that nobody has run.
std::string print_commands(const Diagnosis& diagnosis);
HtmlReport make_page(const Outcome& outcome);

std::string explain(const Rule& rule);
// The table of rules as Markdown.
std::string print_rules();

}  // namespace ringwood::tools::doctor
