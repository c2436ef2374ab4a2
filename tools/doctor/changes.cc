#include "tools/doctor/changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace ringwood::tools::doctor {
namespace {

using nlohmann::json;

constexpr const char* kAbsent = "absent";

// They are other ones each time, or are compared by other means.
constexpr std::string_view kVolatile[] = {"format",
                                          "host",
                                          "token",
                                          "ranks",
                                          "pid",
                                          "rank",
                                          "others",
                                          "gaps",
                                          "rises",
                                          "moves",
                                          "seconds",
                                          "clock_s",
                                          "cores",
                                          "uptime_s",
                                          "files_open",
                                          "neighbours",
                                          "neighbours_refused",
                                          "carrier_changes",
                                          "memory_used",
                                          "memory_shared",
                                          "threads_used",
                                          "huge_bytes_free"};

bool is_volatile(const std::string& key, const json& value) {
  // Settings have the type of counters, but not their name.
  return key == "counters" || std::ranges::count(kVolatile, key) > 0 || value.is_null();
}

// What a list's member is called: by which it is found in the other list.
std::string name_in(const std::string& list, const json& member) {
  if (!member.is_object()) return member.is_string() ? member.get<std::string>() : member.dump();
  if (list == "ports")
    return fmt::format("port {}/{}", member.at("device").get<std::string>(),
                       member.at("number").get<int>());
  if (list == "interfaces") return "interface " + member.at("name").get<std::string>();
  if (list == "pci") return "PCI device " + member.at("address").get<std::string>();
  if (list == "gpus") return fmt::format("GPU {}", member.at("index").get<int>());
  if (list == "gids") return fmt::format("GID {}", member.at("index").get<int>());
  return member.dump();
}

std::string shown(const json& value) {
  if (value.is_null()) return kAbsent;
  if (value.is_string())
    return value.get<std::string>().empty() ? kAbsent : value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.is_object() && value.empty() ? kAbsent : value.dump();
  std::vector<std::string> words;
  for (const json& one : value) words.push_back(one.is_object() ? one.dump() : shown(one));
  return words.empty() ? kAbsent : fmt::format("{}", fmt::join(words, ", "));
}

class Differences final {
 public:
  Differences(std::string host, std::vector<Change>& all) : host_(std::move(host)), all_(all) {}

  // `path`: what the two are, for people; `key`: the member that they are of what contains them.
  void between(const std::string& path, const std::string& key, const json& before,
               const json& after) {
    if (before == after) return;
    if (before.is_object() && after.is_object())
      of_objects(path, before, after);
    else if (before.is_array() && after.is_array() && has_objects(before, after))
      of_lists(path, key, before, after);
    else
      all_.push_back({host_, path, shown(before), shown(after)});
  }

 private:
  static bool has_objects(const json& before, const json& after) {
    const json& one = before.empty() ? after : before;
    return !one.empty() && one.front().is_object();
  }
  static std::string joined(const std::string& path, const std::string& key) {
    static const std::set<std::string> kPlain{"system", "process", "ports", "interfaces",
                                              "pci",    "gids",    "gpus"};
    if (kPlain.contains(key)) return path;
    return path.empty() ? key : fmt::format("{}: {}", path, key);
  }

  void of_objects(const std::string& path, const json& before, const json& after) {
    std::set<std::string> keys;
    for (const json* one : {&before, &after})
      for (const auto& [key, value] : one->items())
        if (!is_volatile(key, value)) keys.insert(key);
    for (const std::string& key : keys)
      between(joined(path, key), key, before.value(key, json()), after.value(key, json()));
  }

  void of_lists(const std::string& path, const std::string& key, const json& before,
                const json& after) {
    std::map<std::string, std::pair<json, json>> members;
    for (const json& one : before) members[name_in(key, one)].first = one;
    for (const json& one : after) members[name_in(key, one)].second = one;
    for (const auto& [name, both] : members) {
      const std::string where = path.empty() ? name : fmt::format("{}: {}", path, name);
      if (both.first.is_null() || both.second.is_null())
        all_.push_back({host_, where, both.first.is_null() ? kAbsent : "there",
                        both.second.is_null() ? kAbsent : "there"});
      else
        between(where, key, both.first, both.second);
    }
  }

  const std::string host_;
  std::vector<Change>& all_;
};

const Snapshot* namesake(const Snapshots& hosts, const Snapshot& of, bool only_one) {
  if (only_one) return &hosts.front();
  const auto found =
      std::ranges::find_if(hosts, [&](const Snapshot& one) { return one.host == of.host; });
  return found == hosts.end() ? nullptr : &*found;
}

// Ports, interfaces and cards of all these hosts: a rule may find its fault on one of them and on
// another one later.
std::set<std::string> parts_of(const Snapshots& hosts) {
  std::set<std::string> parts;
  for (const Snapshot& host : hosts) {
    for (const RdmaPort& port : host.ports) parts.insert({port.device, name_of(port)});
    for (const NetInterface& interface : host.interfaces) parts.insert(interface.name);
    for (const PciDevice& device : host.pci) parts.insert(device.address);
    for (const Gpu& gpu : host.gpus)
      parts.insert({fmt::format("GPU {}", gpu.index), fmt::format("GPU{}", gpu.index)});
  }
  parts.erase("");
  return parts;
}

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool speaks_of(const std::string& text, const std::string& part) {
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) {
    const size_t end = at + part.size();
    if ((at == 0 || !is_of_name(text[at - 1])) && (end == text.size() || !is_of_name(text[end])))
      return true;
  }
  return false;
}

std::set<std::string> spoken_of(const Finding& finding, const std::set<std::string>& parts) {
  std::set<std::string> all;
  for (const std::string& part : parts)
    if (speaks_of(finding.evidence, part)) all.insert(part);
  return all;
}

// Those of `some` that are not among `others`: of the same rule, on the same hosts and parts.
std::vector<Finding> without(const std::vector<Finding>& some, const std::vector<Finding>& others,
                             const std::set<std::string>& parts, bool only_one) {
  std::vector<Finding> left;
  for (const Finding& one : some)
    if (std::ranges::none_of(others, [&](const Finding& other) {
          return one.id == other.id && (only_one || one.host == other.host) &&
                 spoken_of(one, parts) == spoken_of(other, parts);
        }))
      left.push_back(one);
  return left;
}

}  // namespace

Comparison compare_with(const std::string& file, const Snapshots& earlier, const Snapshots& now,
                        const Diagnosis& diagnosis, const Wishes& wishes,
                        const std::vector<std::string>& ignored) {
  Comparison result{file, {}, {}, {}};
  const bool only_one = earlier.size() == 1 && now.size() == 1;
  for (const Snapshot& after : now) {
    const Snapshot* const before = namesake(earlier, after, only_one);
    if (before == nullptr) {
      result.changes.push_back({after.host, "", kAbsent, "there"});
      continue;
    }
    Differences(after.host, result.changes)
        .between("", "", json::parse(to_text(*before)), json::parse(to_text(after)));
  }
  for (const Snapshot& before : earlier)
    if (namesake(now, before, only_one) == nullptr)
      result.changes.push_back({before.host, "", "there", kAbsent});
  const std::vector<Finding> old = diagnose(earlier, wishes).findings;
  std::set<std::string> parts = parts_of(now);
  parts.merge(parts_of(earlier));
  result.found = without(diagnosis.findings, old, parts, only_one);
  result.gone = without(old, diagnosis.findings, parts, only_one);
  for (std::vector<Finding>* some : {&result.found, &result.gone})
    std::erase_if(*some, [&](const Finding& one) {
      const Rule* const rule = find_rule(one.id);
      const bool probed = rule != nullptr && rule->look == nullptr && rule->compare == nullptr;
      return probed || std::ranges::count(ignored, one.id) > 0;
    });
  return result;
}

std::string print_text(const Comparison& comparison) {
  std::string text = fmt::format("\nSince {}:\n", comparison.file);
  for (const Change& one : comparison.changes)
    text += fmt::format("  {}  {}{}{} -> {}\n", one.host, one.what, one.what.empty() ? "" : ": ",
                        one.before, one.after);
  for (const Finding& one : comparison.found)
    text += fmt::format("  new   {}  {} {}\n", one.host, to_string(one.severity), one.id);
  for (const Finding& one : comparison.gone)
    text += fmt::format("  gone  {}  {} {}\n", one.host, to_string(one.severity), one.id);
  if (comparison.changes.empty() && comparison.found.empty() && comparison.gone.empty())
    text += "  nothing has changed but counters and clocks\n";
  return text;
}

}  // namespace ringwood::tools::doctor
