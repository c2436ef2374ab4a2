#include "transports/verbs/path/path_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "transports/base/error.h"
#include "transports/verbs/path/path_text.h"

namespace ringwood::verbs {
namespace {

constexpr size_t kMaxBytes = 1024;

}  // namespace

std::string print(const PathAddress& address) {
  return nlohmann::json{{"pair", address.end}, {"gid", address.gid}, {"lid", address.lid},
                        {"mtu", address.mtu},  {"key", address.key}, {"scrap", address.scrap}}
      .dump();
}

PathAddress parse_path_address(std::span<const std::byte> text) {
  PathAddress address;
  try {
    if (text.size() > kMaxBytes) throw std::runtime_error("too long");
    const auto* const begin = reinterpret_cast<const char*>(text.data());
    const auto json = nlohmann::json::parse(begin, begin + text.size());
    address.end = json.at("pair").get<PathEnd>();
    address.gid = json.at("gid").get<GidBytes>();
    address.lid = std::clamp(json.at("lid").get<int>(), 0, 0xffff);
    address.mtu = std::clamp(json.at("mtu").get<int>(), 256, 4096);
    address.key = json.at("key").get<uint32_t>();
    address.scrap = json.at("scrap").get<uint64_t>();
  } catch (const std::exception& error) {
    throw Error(ErrorCode::network, fmt::format("the peer's new path: {}", error.what()));
  }
  return address;
}

std::string printable(std::span<const std::byte> text) {
  std::string words(reinterpret_cast<const char*>(text.data()), std::min(text.size(), kMaxBytes));
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return words;
}

}  // namespace ringwood::verbs
