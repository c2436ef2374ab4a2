#include "tools/remote/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <string_view>

#include "tools/command/numbers.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxHosts = 16384, kMaxHost = 255;

[[noreturn]] void refuse_list(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

// A word that begins with a dash would be an option of ssh.
void check_host(const std::string& host) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._-:@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (host.empty() || host.size() > kMaxHost || host[0] == '-' || host[0] == '@' ||
      host.back() == '@' || !std::ranges::all_of(host, fits))
    refuse_list(fmt::format("{:?} is not the name or address of a host", host.substr(0, 64)));
}

void add_host(const std::string& host, std::vector<std::string>& all) {
  check_host(host);
  if (std::ranges::find(all, host) != all.end()) return;
  if (all.size() == kMaxHosts) refuse_list(fmt::format("there are more than {} hosts", kMaxHosts));
  all.push_back(host);
}

// Splits at commas that are not inside of brackets.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

// "007"; nullopt: something else than digits.
std::optional<int64_t> parse_digits(const std::string& text) {
  const size_t start = std::min(text.find_first_not_of('0'), text.size() - 1);
  return text.empty() ? std::nullopt : parse_whole(text.substr(start));
}

// "01-03" -> 01 02 03: as many digits as the first one has.
std::vector<std::string> count(const std::string& range) {
  const size_t dash = std::min(range.find('-'), range.size());
  const std::string first = range.substr(0, dash);
  const std::string last = dash == range.size() ? first : range.substr(dash + 1);
  const auto from = parse_digits(first), to = parse_digits(last);
  if (!from || !to || *from < 0 || *to < *from || *to - *from >= static_cast<int64_t>(kMaxHosts))
    refuse_list(fmt::format("[{}] is not a range of numbers as in node[01-16]", range));
  std::vector<std::string> numbers;
  for (int64_t n = *from; n <= *to; ++n) numbers.push_back(fmt::format("{:0{}}", n, first.size()));
  return numbers;
}

void expand(const std::string& word, std::vector<std::string>& all) {
  const size_t open = word.find('['), close = word.find(']', std::min(open, word.size()));
  if (open == word.npos) return add_host(word, all);
  if (close == word.npos) refuse_list(fmt::format("{:?} has a [ without a ]", word));
  const std::string before = word.substr(0, open), after = word.substr(close + 1);
  for (const std::string& range : split(word.substr(open + 1, close - open - 1)))
    for (const std::string& number : count(range))
      expand(fmt::format("{}{}{}", before, number, after), all);
}

}  // namespace

std::vector<std::string> parse_hosts(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string& word : split(text)) expand(word, all);
  return all;
}

std::vector<std::string> parse_host_file(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string first;
    if (!(words >> first)) continue;
    // An IPv6 address has more colons than one.
    const size_t colon = first.find(':');
    if (colon != first.npos && first.find(':', colon + 1) == first.npos) first.resize(colon);
    for (const std::string& word : split(first)) expand(word, all);
  }
  if (all.empty()) refuse_list("it names no host");
  return all;
}

std::string without_user(const std::string& host) { return host.substr(host.rfind('@') + 1); }

}  // namespace ringwood::tools
