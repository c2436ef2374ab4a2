#include "collectives/tuner/machine/topology.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "transports/base/error.h"
#include "transports/base/input_file.h"

namespace ringwood {
namespace {

constexpr size_t kMaxHosts = 1 << 16, kMaxFile = 16 << 20;

std::vector<std::string> words_of(std::string line) {
  std::ranges::replace(line, '\r', ' ');
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

int number_in(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    refuse(fmt::format("'{}' is not a number", text));
  return value;
}

// "1-4" or "7", with leading zeros kept, between what stands before and after.
void append_range(std::vector<std::string>& hosts, std::string_view before, std::string_view range,
                  std::string_view after) {
  const size_t dash = std::min(range.find('-'), range.size());
  const std::string_view low = range.substr(0, dash);
  const int first = number_in(low);
  const int last = dash == range.size() ? first : number_in(range.substr(dash + 1));
  if (last < first) refuse(fmt::format("the range {} ends before it begins", range));
  for (int i = first; i <= last; ++i) {
    if (hosts.size() == kMaxHosts) refuse(fmt::format("more than {} hosts", kMaxHosts));
    hosts.push_back(fmt::format("{}{:0{}}{}", before, i, low.size(), after));
  }
}

void append_item(std::vector<std::string>& hosts, std::string_view item) {
  const size_t open = item.find('['), close = item.find(']');
  if (open == item.npos && close == item.npos) {
    if (item.empty()) refuse("an empty name");
    hosts.emplace_back(item);
    return;
  }
  if (open == item.npos || close == item.npos || close < open ||
      item.find('[', open + 1) != item.npos || item.find(']', close + 1) != item.npos)
    refuse(fmt::format("'{}' should have one pair of brackets", item));
  std::string_view ranges = item.substr(open + 1, close - open - 1);
  while (true) {
    const size_t comma = std::min(ranges.find(','), ranges.size());
    append_range(hosts, item.substr(0, open), ranges.substr(0, comma), item.substr(close + 1));
    if (comma == ranges.size()) return;
    ranges.remove_prefix(comma + 1);
  }
}

// The value of "key=value", whatever its case; nothing for another key.
std::string value_of(const std::string& word, std::string_view key) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  const bool is = word.size() > key.size() && word[key.size()] == '=' &&
                  std::equal(key.begin(), key.end(), word.begin(), same);
  return is ? word.substr(key.size() + 1) : "";
}

class Reader {
 public:
  void take(const std::string& line) {
    std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) return;
    const std::string leaf = value_of(words[0], "SwitchName");
    if (!leaf.empty()) return take_switch(leaf, words);
    std::string spaced = line.substr(0, line.find('#'));
    std::ranges::replace(spaced, ',', ' ');
    words = words_of(spaced);
    if (words.size() < 2 || words.size() > 3)
      refuse("expected  HOST LEAF [RAIL]  or  SwitchName=LEAF Nodes=HOSTS");
    const int rail = words.size() == 3 ? number_in(words[2]) : 0;
    put(words[0], words[1], rail);
  }
  Topology done() {
    for (const auto& [host, rails] : rails_)
      topology_.rails = std::max(topology_.rails, static_cast<int>(rails.size()));
    for (const auto& [host, rails] : rails_) topology_.leaf_of[host] = rails.begin()->second;
    return std::move(topology_);
  }

 private:
  void take_switch(const std::string& leaf, const std::vector<std::string>& words) {
    for (size_t i = 1; i < words.size(); ++i)
      if (const std::string hosts = value_of(words[i], "Nodes"); !hosts.empty())
        for (const std::string& host : expand_host_list(hosts)) put(host, leaf, 0);
  }
  void put(const std::string& host, const std::string& leaf, int rail) {
    const auto [it, fresh] = rails_[host].emplace(rail, leaf);
    if (!fresh && it->second != leaf)
      refuse(fmt::format("host {} is at {} and at {}: leave one of them, or give them rails", host,
                         it->second, leaf));
  }

  Topology topology_;
  std::map<std::string, std::map<int, std::string>> rails_;  // by host and rail: the leaf
};

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> hosts;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size()) depth += list[at] == '[' ? 1 : list[at] == ']' ? -1 : 0;
    if (at < list.size() && (list[at] != ',' || depth != 0)) continue;
    append_item(hosts, list.substr(begin, at - begin));
    begin = at + 1;
  }
  return hosts;
}

Topology parse_topology(std::string_view text, const std::string& name) {
  Reader reader;
  std::istringstream in{std::string(text)};
  std::string line, whole;
  for (int number = 1; std::getline(in, line); ++number) {
    whole += line;
    if (whole.ends_with('\\')) {  // goes on in the next line
      whole.back() = ' ';
      continue;
    }
    try {
      reader.take(whole);
    } catch (const Error& error) {
      refuse(fmt::format("{}, line {}: {}", name, number, error.cause));
    }
    whole.clear();
  }
  return reader.done();
}

std::vector<int> leaves_of(const std::string& file, const std::vector<std::string>& hosts,
                           int& rails) {
  InputFile in(file);
  std::string text(kMaxFile + 1, '\0');
  if (!in) refuse(fmt::format("RINGWOOD_TOPOLOGY={}: the file cannot be read on rank 0", file));
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxFile) refuse(fmt::format("{}: longer than {} bytes", file, kMaxFile));
  const Topology topology = parse_topology(text, file);
  std::vector<std::string> known;
  std::vector<int> leaves;
  for (const std::string& host : hosts) {
    auto it = topology.leaf_of.find(host);
    // A file may leave the domain out.
    if (it == topology.leaf_of.end()) it = topology.leaf_of.find(host.substr(0, host.find('.')));
    if (it == topology.leaf_of.end())
      refuse(fmt::format("{}: host {} is not in it: add a line, or unset RINGWOOD_TOPOLOGY", file,
                         host));
    const auto at = std::ranges::find(known, it->second);
    leaves.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(it->second);
  }
  rails = topology.rails;
  return leaves;
}

}  // namespace ringwood
