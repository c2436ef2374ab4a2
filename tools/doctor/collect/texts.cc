#include "tools/doctor/collect/texts.h"

#include <algorithm>
#include <cctype>

#include "tools/doctor/collect/tree.h"

namespace ringwood::tools::doctor {
namespace {

constexpr int kPriorities = 8;
constexpr int kDscps = 64;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// "Speed 16GT/s" -> 16: the number after a word.
std::optional<double> number_after(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == text.npos) return std::nullopt;
  const std::string rest = text.substr(at + word.size(), 16);
  char* end = nullptr;
  const double value = std::strtod(rest.c_str(), &end);
  if (end == rest.c_str()) return std::nullopt;
  return value;
}

std::optional<int> integer_after(const std::string& text, const std::string& word) {
  const auto value = number_after(text, word);
  return value && *value >= 0 && *value < 1e6 ? std::optional<int>(static_cast<int>(*value))
                                              : std::nullopt;
}

// 26, "26", "AF31", "CS6", "EF" -> the number; -1: none of them.
int dscp_of(const std::string& word) {
  if (const auto number = leading_number(word))
    return static_cast<int>(std::min<int64_t>(*number, kDscps));
  if (word == "EF") return 46;
  if (word == "VA" || word == "VOICE-ADMIT") return 44;
  if (word == "BE") return 0;
  if (word == "LE") return 1;
  if (word.size() == 3 && begins_with(word, "CS") && word[2] >= '0' && word[2] <= '7')
    return 8 * (word[2] - '0');
  if (word.size() == 4 && begins_with(word, "AF") && word[2] >= '1' && word[2] <= '4' &&
      word[3] >= '1' && word[3] <= '3')
    return 8 * (word[2] - '0') + 2 * (word[3] - '0');
  return -1;
}

void map_dscp(Dcb& dcb, int dscp, int64_t priority) {
  if (dscp >= 0 && dscp < kDscps && priority >= 0 && priority < kPriorities)
    dcb.dscp_to_priority[dscp] = static_cast<int>(priority);
}

// The words "KEY:VALUE" after `name` in a line that begins with it, and in the lines that continue
// it.
std::vector<std::pair<std::string, std::string>> pairs_of(const std::string& text,
                                                          const std::string& name) {
  std::vector<std::pair<std::string, std::string>> all;
  bool inside = false;
  for (const std::string& word : words_of(text)) {
    const size_t colon = word.find(':');
    if (word == name) {
      inside = true;
    } else if (colon == word.npos) {
      inside = false;
    } else if (inside) {
      all.emplace_back(word.substr(0, colon), word.substr(colon + 1));
    }
  }
  return all;
}

void set_at(std::vector<int>& list, int64_t index, int value) {
  if (index < 0 || index >= kPriorities) return;
  list.resize(kPriorities);
  list[static_cast<size_t>(index)] = value;
}

}  // namespace

Counters parse_ethtool_statistics(const std::string& text) {
  Counters counters;
  for (const std::string& line : lines_of(text)) {
    const size_t colon = line.rfind(':');
    if (colon == line.npos) continue;
    const auto value = leading_number(line.substr(colon + 1));
    const std::string name = trimmed(line.substr(0, colon));
    if (value && !name.empty()) counters[name] = *value;
  }
  return counters;
}

std::string parse_field(const std::string& text, const std::string& name) {
  for (const std::string& line : lines_of(text)) {
    const std::string whole = trimmed(line);
    if (begins_with(whole, name + ":")) return trimmed(whole.substr(name.size() + 1));
  }
  return {};
}

std::optional<Pause> parse_ethtool_pause(const std::string& text) {
  const std::string receive = parse_field(text, "RX"), send = parse_field(text, "TX");
  if (receive.empty() || send.empty()) return std::nullopt;
  return Pause{begins_with(receive, "on"), begins_with(send, "on")};
}

std::string parse_ethtool_fec(const std::string& text) {
  return parse_field(text, "Active FEC encoding");
}

bool parse_mlnx_qos(const std::string& text, Dcb& dcb) {
  bool pfc = false;
  int tc = -1;
  for (const std::string& line : lines_of(text)) {
    const std::string whole = trimmed(line);
    if (begins_with(whole, "Priority trust state:")) {
      dcb.trust = trimmed(whole.substr(21));
    } else if (begins_with(whole, "prio:")) {
      const auto priority = integer_after(whole, "prio:");
      const size_t list = whole.find("dscp:");
      if (!priority || list == whole.npos) continue;
      std::string numbers = whole.substr(list + 5);
      std::replace(numbers.begin(), numbers.end(), ',', ' ');
      for (const std::string& word : words_of(numbers)) map_dscp(dcb, dscp_of(word), *priority);
    } else if (begins_with(whole, "enabled") && dcb.pfc.empty()) {
      const auto words = words_of(whole);
      for (size_t i = 1; i < words.size(); ++i)
        set_at(dcb.pfc, static_cast<int64_t>(i) - 1, words[i] == "1");
      pfc = !dcb.pfc.empty();
    } else if (begins_with(whole, "tc:")) {
      tc = integer_after(whole, "tc:").value_or(-1);
    } else if (begins_with(whole, "priority:") && tc >= 0) {
      set_at(dcb.traffic_classes, integer_after(whole, "priority:").value_or(-1), tc);
    }
  }
  return pfc || !dcb.trust.empty();
}

bool parse_dcb_pfc(const std::string& text, Dcb& dcb) {
  const auto pairs = pairs_of(text, "prio-pfc");
  for (const auto& [priority, state] : pairs)
    set_at(dcb.pfc, leading_number(priority).value_or(-1), state == "on");
  return !pairs.empty();
}

bool parse_dcb_ets(const std::string& text, Dcb& dcb) {
  const auto pairs = pairs_of(text, "prio-tc");
  for (const auto& [priority, tc] : pairs)
    set_at(dcb.traffic_classes, leading_number(priority).value_or(-1),
           static_cast<int>(leading_number(tc).value_or(0)));
  return !pairs.empty();
}

bool parse_dcb_app(const std::string& text, Dcb& dcb) {
  const auto pairs = pairs_of(text, "dscp-prio");
  for (const auto& [dscp, priority] : pairs)
    map_dscp(dcb, dscp_of(dscp), leading_number(priority).value_or(-1));
  // Drivers trust the DSCP as soon as an application is told by one.
  if (!pairs.empty() && dcb.trust.empty()) dcb.trust = "dscp";
  dcb.applications_read = true;  // nothing is printed of an empty table
  return !pairs.empty();
}

bool parse_lldptool_pfc(const std::string& text, Dcb& dcb) {
  std::string enabled = parse_field(text, "PFC enabled");
  if (enabled.empty()) return false;
  dcb.pfc.assign(kPriorities, 0);
  std::replace(enabled.begin(), enabled.end(), ',', ' ');
  for (const std::string& word : words_of(enabled))
    if (const auto priority = leading_number(word)) set_at(dcb.pfc, *priority, 1);
  return true;
}

bool parse_lldptool_app(const std::string& text, Dcb& dcb) {
  int64_t priority = -1;
  bool told = false;
  for (const std::string& line : lines_of(text)) {
    const std::string whole = trimmed(line);
    if (begins_with(whole, "Priority:")) priority = leading_number(whole.substr(9)).value_or(-1);
    if (!begins_with(whole, "DSCP:")) continue;
    map_dscp(dcb, dscp_of(trimmed(whole.substr(5))), priority);
    told = true;
  }
  if (told && dcb.trust.empty()) dcb.trust = "dscp";
  return told;
}

int parse_acs_bits(const std::string& text) {
  constexpr const char* kBits[] = {"SrcValid",    "TransBlk",   "ReqRedir",   "CmpltRedir",
                                   "UpstreamFwd", "EgressCtrl", "DirectTrans"};
  int bits = 0;
  for (size_t i = 0; i < std::size(kBits); ++i)
    if (contains(text, std::string(kBits[i]) + "+")) bits |= 1 << i;
  return bits;
}

std::map<std::string, LspciDevice> parse_lspci(const std::string& text) {
  std::map<std::string, LspciDevice> all;
  LspciDevice* device = nullptr;
  for (const std::string& line : lines_of(text)) {
    if (line.empty()) continue;
    if (std::isxdigit(static_cast<unsigned char>(line[0]))) {
      std::string address = line.substr(0, line.find(' '));
      if (std::count(address.begin(), address.end(), ':') == 1) address.insert(0, "0000:");
      device = &all[address];
    }
    if (device == nullptr) continue;
    const std::string whole = trimmed(line);
    if (begins_with(whole, "LnkCap:")) {
      device->max_speed = number_after(whole, "Speed ");
      device->max_width = integer_after(whole, "Width x");
    } else if (begins_with(whole, "LnkSta:")) {
      device->speed = number_after(whole, "Speed ");
      device->width = integer_after(whole, "Width x");
    } else if (contains(whole, "MaxReadReq ")) {
      device->max_read_request = integer_after(whole, "MaxReadReq ");
    } else if (begins_with(whole, "RlxdOrd")) {
      device->relaxed_ordering = begins_with(whole, "RlxdOrd+");
    } else if (begins_with(whole, "ACSCtl:")) {
      device->acs_control = parse_acs_bits(whole);
    } else if (begins_with(whole, "ATSCtl:")) {
      device->ats = contains(whole, "Enable+");
    } else if (contains(whole, "Capabilities: <access denied>")) {
      device->capabilities_read = false;
    }
  }
  return all;
}

std::map<std::string, std::vector<std::string>> parse_ip_addresses(const std::string& text) {
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    for (size_t i = 2; i + 1 < words.size(); ++i)
      if (words[i] == "inet" || words[i] == "inet6") {
        all[words[1].substr(0, words[1].find('@'))].push_back(words[i + 1]);
        break;
      }
  }
  return all;
}

std::vector<std::string> parse_policy_rules(const std::string& text) {
  std::vector<std::string> rules;
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 2 || words[0].back() != ':') continue;
    const bool own = (words[0] == "0:" && words.back() == "local") ||
                     (words[0] == "32766:" && words.back() == "main") ||
                     (words[0] == "32767:" && words.back() == "default");
    if (!own) rules.push_back(trimmed(line));
  }
  return rules;
}

std::vector<std::string> parse_firewall(const std::string& text) {
  std::vector<std::string> rules;
  for (const std::string& line : lines_of(text)) {
    const std::string whole = trimmed(line), small = lower(whole);
    const bool stops = contains(small, "drop") || contains(small, "reject");
    // What is only forwarded, as Docker's bridges do, is none of ours.
    const bool policy = (contains(small, "hook input") && contains(small, "policy drop")) ||
                        begins_with(small, ":input drop") || begins_with(small, "-p input drop");
    if ((stops && contains(small, "4791")) || policy) rules.push_back(whole);
    if (contains(small, "4791") && contains(small, "accept")) return {};
  }
  return rules;
}

}  // namespace ringwood::tools::doctor
