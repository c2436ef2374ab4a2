#include "transports/verbs/rail/gids.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <tuple>

namespace ringwood::verbs {
namespace {

constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

const char* to_string(GidType type) {
  switch (type) {
    case GidType::infiniband: return "IB";
    case GidType::roce_v1: return "RoCE v1";
    case GidType::roce_v2: return "RoCE v2";
  }
  return "?";
}

bool of_version(const Gid& gid, int version) {
  return gid.type == (version == 1 ? GidType::roce_v1 : GidType::roce_v2);
}

int bits_in_common(const GidBytes& a, const GidBytes& b) {
  int bits = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const unsigned difference = a[i] ^ b[i];
    if (difference == 0) {
      bits += 8;
      continue;
    }
    for (unsigned mask = 0x80; !(difference & mask); mask >>= 1) ++bits;
    break;
  }
  return bits;
}

// Smaller is better; `fits` excludes first.
auto rank(const Gid& gid, const GidWish& wish) {
  const int scope = is_link_local(gid.bytes) ? 2 : is_ipv4(gid.bytes) ? 0 : 1;
  return std::make_tuple(!of_version(gid, wish.version), scope, gid.vlan, gid.index);
}

bool fits(const Gid& gid, const GidWish& wish, const std::optional<GidRange>& range) {
  if (is_zero(gid.bytes)) return false;
  if (gid.type == GidType::infiniband) return true;
  if (gid.interface.empty() || !gid.up) return false;
  if (wish.family == "AF_INET" && !is_ipv4(gid.bytes)) return false;
  if (wish.family == "AF_INET6" && is_ipv4(gid.bytes)) return false;
  return !range || range->contains(gid.bytes);
}

}  // namespace

std::string to_string(const GidBytes& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(gid)) {
    ::inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

bool is_ipv4(const GidBytes& gid) { return std::memcmp(gid.data(), kMapped, sizeof kMapped) == 0; }

bool is_link_local(const GidBytes& gid) {
  if (is_ipv4(gid)) return gid[12] == 169 && gid[13] == 254;
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

bool is_zero(const GidBytes& gid) {
  return std::all_of(gid.begin(), gid.end(), [](uint8_t byte) { return byte == 0; });
}

bool GidRange::contains(const GidBytes& gid) const { return bits_in_common(prefix, gid) >= bits; }

std::optional<GidRange> parse_range(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string address = text.substr(0, slash);
  GidRange range;
  bool v4 = false;
  if (::inet_pton(AF_INET, address.c_str(), range.prefix.data() + 12) == 1) {
    std::memcpy(range.prefix.data(), kMapped, sizeof kMapped);
    v4 = true;
  } else if (::inet_pton(AF_INET6, address.c_str(), range.prefix.data()) != 1) {
    return std::nullopt;
  }
  if (slash == text.npos) return range;
  int bits = -1;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + slash + 1, end, bits);
  if (parsed.ec != std::errc() || parsed.ptr != end || bits < 0 || bits > (v4 ? 32 : 128))
    return std::nullopt;
  range.bits = v4 ? 96 + bits : bits;
  return range;
}

std::optional<size_t> choose(const std::vector<Gid>& table, const GidWish& wish, std::string& why) {
  if (wish.index >= 0) {
    for (size_t i = 0; i < table.size(); ++i)
      if (table[i].index == wish.index && !is_zero(table[i].bytes)) return i;
    why = fmt::format(
        "no GID has index {} (RINGWOOD_VERBS_GID_INDEX; leave it unset, or take one "
        "of: {})",
        wish.index, print(table));
    return std::nullopt;
  }
  const std::optional<GidRange> range = wish.range.empty() ? std::nullopt : parse_range(wish.range);
  std::optional<size_t> best;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!fits(table[i], wish, range)) continue;
    if (!best || rank(table[i], wish) < rank(table[*best], wish)) best = i;
  }
  if (!best)
    why = fmt::format(
        "no GID can be used{}: give its interface an address, set it up, and see "
        "that it is in this network namespace; GIDs: {}",
        wish.family.empty() && wish.range.empty()
            ? ""
            : fmt::format(" within {}{}{}", wish.family, wish.family.empty() ? "" : " ",
                          wish.range),
        print(table));
  return best;
}

std::string print(const std::vector<Gid>& table) {
  std::string text;
  for (const Gid& gid : table)
    text += fmt::format("{}[{}] {} {} {}{}{}", text.empty() ? "" : "; ", gid.index,
                        to_string(gid.bytes), to_string(gid.type),
                        gid.interface.empty() ? "no interface here" : gid.interface,
                        gid.interface.empty() ? ""
                        : gid.up              ? " up"
                                              : " down",
                        gid.vlan ? " VLAN" : "");
  return text.empty() ? "none" : text;
}

int shared_prefix(const GidBytes& a, const GidBytes& b) {
  if (is_ipv4(a) != is_ipv4(b)) return 0;
  const int bits = bits_in_common(a, b);
  return is_ipv4(a) ? std::min(bits, 96 + 24) - 96 : std::min(bits, 64);
}

}  // namespace ringwood::verbs
