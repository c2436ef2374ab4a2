#include "tools/doctor/relay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/doctor/snapshot.h"
#include "transports/base/bytes.h"
#include "transports/base/error.h"

namespace ringwood::tools::doctor {
namespace {

using nlohmann::json;

constexpr const char* kBegin = "ringwood-doctor-relay-1";
constexpr size_t kMaxText = 4096, kMaxReason = 400, kMaxList = 100'000;

[[noreturn]] void refuse_relay(const std::string& origin, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("what ringwood doctor says on {} is not understood: {}", origin,
                          why.substr(0, kMaxReason)));
}

json to_json(const ProbeResult& probe) {
  json findings = json::array(), missed = json::array();
  for (const Finding& one : probe.findings)
    findings.push_back({{"id", one.id}, {"host", one.host}, {"evidence", one.evidence}});
  for (const NotChecked& one : probe.not_checked)
    missed.push_back(
        {{"what", one.what}, {"reason", one.reason}, {"host", one.host}, {"rules", one.rules}});
  const auto matrix = [](const std::optional<Matrix>& rates) {
    return rates ? json::parse(print_json(*rates)) : json(nullptr);
  };
  return {{"findings", std::move(findings)},
          {"not_checked", std::move(missed)},
          {"matrix", matrix(probe.matrix)},
          {"matrix_by_rail", matrix(probe.by_rail)}};
}

// Without control characters.
std::string text_at(const json& object, const char* key) {
  return printable(clip(object.at(key).get<std::string>(), kMaxText));
}

const json& list_at(const json& object, const char* key, const std::string& origin) {
  const json& list = object.at(key);
  if (!list.is_array() || list.size() > kMaxList)
    refuse_relay(origin, fmt::format("\"{}\" is no list of at most {}", key, kMaxList));
  return list;
}

ProbeResult probe_of(const json& object, const std::string& origin) {
  ProbeResult probe;
  for (const json& one : list_at(object, "findings", origin)) {
    const std::string id = text_at(one, "id");
    const Rule* const rule = find_rule(id);
    if (rule == nullptr)
      probe.not_checked.push_back({id, "this version has no such rule", text_at(one, "host"), {}});
    else
      probe.findings.push_back(
          {id, rule->severity, text_at(one, "evidence"), rule->fix, text_at(one, "host"), {}});
  }
  for (const json& one : list_at(object, "not_checked", origin)) {
    NotChecked missed{text_at(one, "what"), text_at(one, "reason"), text_at(one, "host"), {}};
    for (const json& rule : list_at(one, "rules", origin))
      if (find_rule(rule.get<std::string>()) != nullptr) missed.rules.push_back(rule);
    probe.not_checked.push_back(std::move(missed));
  }
  const auto matrix = [&](const char* key) {
    return object.at(key).is_null() ? std::nullopt
                                    : std::optional(parse_matrix(object.at(key).dump()));
  };
  probe.matrix = matrix("matrix");
  probe.by_rail = matrix("matrix_by_rail");
  return probe;
}

}  // namespace

std::string to_text(const Relay& relay) {
  const json document = {{"clock_s", relay.clock_s},
                         {"free_port", relay.free_port},
                         {"complete", relay.outcome.complete},
                         {"hosts", json::parse(to_text(relay.outcome.hosts))},
                         {"probe", to_json(relay.outcome.probe)}};
  return fmt::format("{}\n{}\n", kBegin, document.dump());
}

Relay relay_from_text(const std::string& text, const std::string& origin) {
  const size_t begin = text.rfind(std::string(kBegin) + '\n');
  if (begin == text.npos || (begin > 0 && text[begin - 1] != '\n'))
    refuse_relay(origin, "it may be another version of ringwood");
  try {
    const json document =
        json::parse(text.substr(begin + std::string(kBegin).size()), [&](int depth, auto, auto&) {
          if (depth > kMaxDepth + 2) refuse_relay(origin, "its lists are nested too deeply");
          return true;
        });
    Relay relay;
    relay.clock_s = document.at("clock_s").get<double>();
    relay.free_port = document.at("free_port").get<int>();
    constexpr double kYear10000 = 253402300800;
    if (!(relay.clock_s >= 0 && relay.clock_s < kYear10000) || relay.free_port < 0 ||
        relay.free_port > 65535)
      refuse_relay(origin, "its clock or port is wrong");
    relay.outcome.complete = document.at("complete").get<bool>();
    relay.outcome.hosts =
        snapshots_from_text(document.at("hosts").dump(), fmt::format("what {} says", origin));
    relay.outcome.probe = probe_of(document.at("probe"), origin);
    return relay;
  } catch (const json::exception& error) {
    refuse_relay(origin, reason_of(error));
  }
}

}  // namespace ringwood::tools::doctor
