#include "tools/simulation/faults.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood {
namespace {

// Reads a text from its beginning.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool skip(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<int> number() { return parse<int>(); }
  std::optional<double> real() { return parse<double>(); }
  bool at_end() const { return text_.empty(); }
  std::string_view rest() const { return text_; }

 private:
  template <class T>
  std::optional<T> parse() {
    T value{};
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || !(value >= 0)) return {};
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }
  std::string_view text_;
};

[[noreturn]] void refuse(std::string_view option, std::string_view text, const char* form) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} \"{}\" is not of the form {}", option, text, form));
}

std::optional<PortFault> read_port(Reader& reader) {
  if (!reader.skip("host")) return {};
  const auto host = reader.number();
  if (!host) return {};
  PortFault port{*host, -1, 0};
  if (!reader.skip("/rail")) return port;
  const auto rail = reader.number();
  if (!rail) return {};
  port.rail = *rail;
  return port;
}

// Less is as good as dead, and times would overflow.
constexpr double kMinFraction = 1e-6;

// A fraction of what is healthy: 0.5, 0.01.
std::optional<double> read_fraction(Reader& reader) {
  if (!reader.skip("=")) return {};
  const auto value = reader.real();
  return value && *value >= kMinFraction && *value <= 1 && reader.at_end() ? value : std::nullopt;
}

// Two faults of one thing would need a third number, which nobody has said: both at once, or the
// later one.
[[noreturn]] void refuse_second(std::string_view option, std::string_view text,
                                const std::string& what) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} \"{}\": {} has another fault already; say one for it", option, text, what));
}

bool overlap(int rail, int other) { return rail < 0 || other < 0 || rail == other; }

std::string port_words(const PortFault& port) {
  return port.rail < 0 ? fmt::format("host{}", port.host)
                       : fmt::format("host{}/rail{}", port.host, port.rail);
}

void add_port(Faults& faults, const PortFault& port, std::string_view option,
              std::string_view text) {
  for (const PortFault& other : faults.ports)
    if (other.host == port.host && overlap(other.rail, port.rail) &&
        (other.way == port.way || other.way == PortWay::both || port.way == PortWay::both))
      refuse_second(option, text, port_words(other));
  faults.ports.push_back(port);
}

void add_rank(std::vector<RankFault>& faults, const RankFault& fault, std::string_view option,
              std::string_view text) {
  for (const RankFault& other : faults)
    if (other.rank == fault.rank) refuse_second(option, text, fmt::format("rank{}", fault.rank));
  faults.push_back(fault);
}

std::optional<int> read_rank(Reader& reader) {
  return reader.skip("rank") ? reader.number() : std::nullopt;
}

}  // namespace

bool Faults::any() const {
  return !ports.empty() || !links.empty() || !uplinks.empty() || !slow.empty() || !late.empty();
}

void require_ranks(const Faults& faults, int n) {
  for (const std::vector<RankFault>* ranks : {&faults.slow, &faults.late})
    for (const RankFault& fault : *ranks)
      if (fault.rank >= n)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("there is no rank{}: the last one is rank{}", fault.rank, n - 1));
}

std::vector<HostException> exceptions_of(const std::vector<PortFault>& ports) {
  std::map<std::pair<int, int>, double> rates;  // by host and rail
  for (const PortFault& port : ports) {
    if (port.rate <= 0) continue;
    double& rate = rates.try_emplace({port.host, port.rail}, 1.0).first->second;
    rate = std::min(rate, port.rate);
  }
  std::vector<HostException> found;
  for (const auto& [at, rate] : rates)
    found.push_back({at.first, rate, fmt::format("host{}", at.first), at.second});
  return found;
}

double parse_seconds(std::string_view what, std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  constexpr Unit kUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  Reader reader(text);
  if (const auto value = reader.real())
    for (const Unit& unit : kUnits)
      if (reader.rest() == unit.name && *value * unit.seconds <= 3600) return *value * unit.seconds;
  refuse(what, text, "5ms, with s, ms, us or ns, and at most an hour");
}

void add_slow_port(Faults& faults, std::string_view text) {
  Reader reader(text);
  std::optional<PortFault> port = read_port(reader);
  if (port && reader.skip("/out"))
    port->way = PortWay::out;
  else if (port && reader.skip("/in"))
    port->way = PortWay::in;
  const auto rate = port ? read_fraction(reader) : std::nullopt;
  if (!rate) refuse("--slow", text, "host7/rail1=0.5, with a fraction from 0.000001 to 1");
  port->rate = *rate;
  add_port(faults, *port, "--slow", text);
}

void add_slow_link(Faults& faults, std::string_view text) {
  Reader reader(text);
  std::optional<int> from, to, rail = -1;
  if (reader.skip("host")) from = reader.number();
  if (from && reader.skip("-host")) to = reader.number();
  if (to && reader.skip("/rail")) rail = reader.number();
  const auto rate = to && rail ? read_fraction(reader) : std::nullopt;
  if (!rate || *from == *to)
    refuse("--slow-link", text,
           "host2-host3=0.25 or host2-host3/rail1=0.25, from one host to another one, with a "
           "fraction from 0.000001 to 1");
  for (const PairFault& other : faults.links)
    if (other.from == *from && other.to == *to && overlap(other.rail, *rail))
      refuse_second("--slow-link", text, fmt::format("host{}-host{}", *from, *to));
  faults.links.push_back({*from, *to, *rail, *rate});
}

void add_dead_port(Faults& faults, std::string_view text) {
  Reader reader(text);
  const std::optional<PortFault> port = read_port(reader);
  if (!port || port->rail < 0 || !reader.at_end()) refuse("--dead", text, "host3/rail0");
  add_port(faults, *port, "--dead", text);
}

void add_dead_uplink(Faults& faults, std::string_view text) {
  constexpr const char* kForm = "leaf0/3, leaf0/rail1/3, leaf0/0-7 or pod0/3";
  Reader reader(text);
  UplinkFault fault;
  std::optional<int> part, rail = 0, first;
  if (reader.skip("pod")) fault.tier = UplinkTier::pod;
  if (fault.tier == UplinkTier::pod || reader.skip("leaf")) part = reader.number();
  if (!part || !reader.skip("/")) refuse("--dead-uplink", text, kForm);
  if (reader.skip("rail")) {
    rail = reader.number();
    if (!rail || !reader.skip("/")) refuse("--dead-uplink", text, kForm);
  }
  first = reader.number();
  std::optional<int> last = first;
  if (first && reader.skip("-")) last = reader.number();
  if (!first || !last || *last < *first || !reader.at_end()) refuse("--dead-uplink", text, kForm);
  faults.uplinks.push_back({fault.tier, *part, *rail, *first, *last});
}

void add_slow_rank(Faults& faults, std::string_view text) {
  Reader reader(text);
  const auto rank = read_rank(reader);
  const auto part = rank ? read_fraction(reader) : std::nullopt;
  if (!part) refuse("--slow-rank", text, "rank5=0.1, with a fraction from 0.000001 to 1");
  add_rank(faults.slow, {*rank, *part}, "--slow-rank", text);
}

void add_late_rank(Faults& faults, std::string_view text) {
  Reader reader(text);
  const auto rank = read_rank(reader);
  if (!rank || !reader.skip("=")) refuse("--late", text, "rank3=5ms");
  add_rank(faults.late, {*rank, parse_seconds("--late", reader.rest())}, "--late", text);
}

}  // namespace ringwood
