#include "transports/verbs/hello.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "transports/base/error.h"
#include "transports/verbs/path/path_set.h"
#include "transports/verbs/path/path_text.h"

namespace ringwood::verbs {
namespace {

constexpr int kVersion = 2;

}  // namespace

std::string print(const Hello& hello) {
  return nlohmann::json{
      {"version", kVersion}, {"failure", hello.failure},  {"ring_bytes", hello.ring_bytes},
      {"ring", hello.ring},  {"tc", hello.traffic_class}, {"sl", hello.service_level},
      {"keys", hello.keys},  {"paths", hello.paths}}
      .dump();
}

Hello parse_hello(std::string_view text) {
  Hello hello;
  try {
    const auto json = nlohmann::json::parse(text);
    if (const int version = json.at("version").get<int>(); version != kVersion)
      throw std::runtime_error(fmt::format("it speaks version {}, we {}", version, kVersion));
    hello.failure = json.at("failure").get<std::string>();
    hello.ring_bytes = json.at("ring_bytes").get<uint64_t>();
    hello.ring = json.at("ring").get<uint64_t>();
    hello.traffic_class = std::clamp(json.at("tc").get<int>(), 0, 255);
    hello.service_level = std::clamp(json.at("sl").get<int>(), 0, 15);
    hello.keys = json.at("keys").get<std::vector<uint32_t>>();
    hello.paths = json.at("paths").get<std::vector<PathEnd>>();
    if (hello.paths.size() > kMaxPaths) throw std::runtime_error("too many paths");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::network,
                fmt::format("the peer's greeting over verbs: {}", error.what()));
  }
  return hello;
}

}  // namespace ringwood::verbs
