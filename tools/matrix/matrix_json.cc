#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include <fmt/format.h>

#include "collectives/tuner/machine/machine_model.h"
#include "tools/matrix/matrix.h"

namespace ringwood::tools {
namespace {

using nlohmann::json;

constexpr size_t kMaxJson = 256 << 20;
constexpr size_t kMaxHosts = 16384, kMaxRails = 64, kMaxName = 256;

[[noreturn]] void refuse_text(const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("this is not the JSON of ringwood matrix or doctor: {}", why));
}

const char* name_of(SlowPath::Kind kind) {
  switch (kind) {
    case SlowPath::Kind::link: return "link";
    case SlowPath::Kind::sender: return "sender";
    case SlowPath::Kind::receiver: return "receiver";
    case SlowPath::Kind::rail: return "rail";
    case SlowPath::Kind::together: return "together";
  }
  return "link";
}

constexpr SlowPath::Kind kKinds[] = {SlowPath::Kind::link, SlowPath::Kind::sender,
                                     SlowPath::Kind::receiver, SlowPath::Kind::rail,
                                     SlowPath::Kind::together};

json host_or_null(const Matrix& matrix, int host) {
  return host < 0 ? json(nullptr) : json(matrix.hosts[static_cast<size_t>(host)]);
}

const json& member(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) refuse_text(fmt::format("\"{}\" is missing", key));
  return *found;
}

double number(const json& value, const char* key) {
  if (!value.is_number()) refuse_text(fmt::format("\"{}\" has something else than a number", key));
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < 0) refuse_text(fmt::format("\"{}\" has {}", key, number));
  return number;
}

std::string text(const json& value, const char* key) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxName)
    refuse_text(fmt::format("\"{}\" has something else than a short text", key));
  return value.get<std::string>();
}

const json& list(const json& object, const char* key, size_t most) {
  const json& value = member(object, key);
  if (!value.is_array() || value.size() > most)
    refuse_text(fmt::format("\"{}\" is not a list of at most {}", key, most));
  return value;
}

std::vector<double> numbers(const json& values, const char* key, size_t n) {
  if (!values.is_array() || values.size() != n)
    refuse_text(fmt::format("\"{}\" has a row that is not of {} numbers", key, n));
  std::vector<double> row;
  for (const json& value : values) row.push_back(number(value, key));
  return row;
}

// Empty where it was not measured.
Table table(const json& object, const char* key, size_t n) {
  const json& rows = list(object, key, n);
  Table table;
  for (const json& row : rows) table.push_back(numbers(row, key, n));
  if (!table.empty() && table.size() != n) refuse_text(fmt::format("\"{}\" is not square", key));
  return table;
}

int host_number(const Matrix& matrix, const json& value, const char* key) {
  if (value.is_null()) return -1;
  const auto found = std::ranges::find(matrix.hosts, text(value, key));
  if (found == matrix.hosts.end()) refuse_text(fmt::format("\"{}\" is not one of the hosts", key));
  return static_cast<int>(found - matrix.hosts.begin());
}

SlowPath parse_slow(const Matrix& matrix, const json& value) {
  SlowPath slow;
  const std::string kind = text(member(value, "kind"), "kind");
  const auto known = std::ranges::find(kKinds, kind, name_of);
  if (known == std::end(kKinds)) refuse_text(fmt::format("there is no slow {:?}", kind));
  slow.kind = *known;
  slow.from = host_number(matrix, member(value, "from"), "from");
  slow.to = host_number(matrix, member(value, "to"), "to");
  const bool rail = slow.kind == SlowPath::Kind::rail || slow.kind == SlowPath::Kind::together;
  if ((slow.from < 0) != (rail || slow.kind == SlowPath::Kind::receiver) ||
      (slow.to < 0) != (rail || slow.kind == SlowPath::Kind::sender))
    refuse_text(fmt::format("a slow {} with other ends", kind));
  slow.rail = text(member(value, "rail"), "rail");
  slow.rate = number(member(value, "bytes_per_s"), "bytes_per_s");
  slow.expected = number(member(value, "expected_bytes_per_s"), "expected_bytes_per_s");
  return slow;
}

void parse_hosts(Matrix& matrix, const json& object) {
  std::set<std::string> known;
  for (const json& name : list(object, "hosts", kMaxHosts)) {
    matrix.hosts.push_back(text(name, "hosts"));
    if (!known.insert(matrix.hosts.back()).second) refuse_text("a host is there twice");
  }
  for (const double ranks : numbers(member(object, "ranks"), "ranks", matrix.hosts.size())) {
    if (ranks < 1 || ranks > kMaxHosts || ranks != std::floor(ranks))
      refuse_text("\"ranks\" is wrong");
    matrix.ranks.push_back(static_cast<int>(ranks));
  }
}

void parse_rails(Matrix& matrix, const json& object) {
  const size_t n = matrix.hosts.size();
  for (const json& rail : list(object, "rails", kMaxRails)) {
    matrix.rails.push_back(
        {text(member(rail, "rail"), "rail"), text(member(rail, "transport"), "transport"),
         table(rail, "latency_s", n), table(rail, "alone_bytes_per_s", n),
         table(rail, "pairs_bytes_per_s", n), table(rail, "all_bytes_per_s", n)});
  }
  const json& between = member(object, "rail_by_rail");
  if (between.is_null()) return;
  const size_t rails = matrix.rails.size();
  matrix.rail_by_rail = {table(between, "cross_bytes_per_s", rails),
                         table(between, "pair_bytes_per_s", rails),
                         numbers(member(between, "all_bytes_per_s"), "all_bytes_per_s", rails)};
}

}  // namespace

std::string print_json(const Matrix& matrix) {
  json rails = json::array(), slow = json::array();
  for (const HostMatrix& rail : matrix.rails)
    rails.push_back({{"rail", rail.rail},
                     {"transport", rail.transport},
                     {"latency_s", rail.latency},
                     {"alone_bytes_per_s", rail.alone},
                     {"pairs_bytes_per_s", rail.pairs},
                     {"all_bytes_per_s", rail.all}});
  for (const SlowPath& path : matrix.slow)
    slow.push_back({{"kind", name_of(path.kind)},
                    {"from", host_or_null(matrix, path.from)},
                    {"to", host_or_null(matrix, path.to)},
                    {"rail", path.rail},
                    {"bytes_per_s", path.rate},
                    {"expected_bytes_per_s", path.expected},
                    {"share", path.rate / path.expected},
                    {"sentence", describe(matrix, path)}});
  json between = nullptr;
  if (!matrix.rail_by_rail.all.empty())
    between = {{"cross_bytes_per_s", matrix.rail_by_rail.cross},
               {"pair_bytes_per_s", matrix.rail_by_rail.pair},
               {"all_bytes_per_s", matrix.rail_by_rail.all}};
  return json{{"hosts", matrix.hosts},
              {"ranks", matrix.ranks},
              {"rails", std::move(rails)},
              {"rail_by_rail", std::move(between)},
              {"slow", std::move(slow)},
              {"not_measured", not_measured(matrix)},
              {"notes", matrix.notes},
              {"machine", matrix.machine},
              {"hosts_on_the_same_cores", matrix.sharing},
              {"seconds", matrix.seconds}}
      .dump(2, ' ', false, json::error_handler_t::replace);
}

Matrix parse_matrix(std::string_view text_form) {
  if (text_form.size() > kMaxJson) refuse_text(fmt::format("{} bytes", text_form.size()));
  json object = json::parse(text_form, nullptr, /*allow_exceptions=*/false);
  if (object.is_object() && object.contains("matrix")) object = json(object["matrix"]);
  const json& one = object.is_array() && !object.empty() ? object[0] : object;
  if (one.is_object() && !one.contains("rails") &&
      (one.contains("findings") || one.contains("process")))
    throw Error(ErrorCode::invalid_argument,
                "this is of ringwood doctor, but has no matrix: run it with --probe --json");
  if (!object.is_object()) refuse_text("it is not a JSON object with a matrix");
  Matrix matrix;
  parse_hosts(matrix, object);
  parse_rails(matrix, object);
  for (const json& slow : list(object, "slow", kMaxHosts * kMaxRails))
    matrix.slow.push_back(parse_slow(matrix, slow));
  const json& machine = member(object, "machine");
  if (!machine.is_string()) refuse_text("\"machine\" is not a text");
  matrix.machine = machine.get<std::string>();
  if (!matrix.machine.empty()) parse_machine_model(matrix.machine);
  const double sharing =
      number(member(object, "hosts_on_the_same_cores"), "hosts_on_the_same_cores");
  if (sharing < 1 || sharing > kMaxHosts) refuse_text("\"hosts_on_the_same_cores\" is wrong");
  matrix.sharing = static_cast<int>(sharing);
  matrix.seconds = number(member(object, "seconds"), "seconds");
  return matrix;
}

}  // namespace ringwood::tools
