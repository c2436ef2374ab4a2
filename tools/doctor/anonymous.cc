#include "tools/doctor/anonymous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <vector>

#include "transports/base/error.h"

namespace ringwood::tools::doctor {
namespace {

using nlohmann::json;
using Ipv6 = std::array<uint8_t, 16>;

// Texts of the kernel and of drivers, which are alike on many machines.
constexpr std::string_view kKept[] = {"kernel", "version", "driver",  "firmware",      "board",
                                      "pci",    "vendor",  "device",  "kind",          "bridges",
                                      "state",  "type",    "modules", "verbs_library", "model"};
// Words of the kernel's command line that rules look at.
constexpr std::string_view kParameters[] = {"iommu",     "intel_iommu",        "amd_iommu", "pci",
                                            "hugepages", "default_hugepagesz", "isolcpus"};

bool is_kept(const std::string& key) { return std::ranges::count(kKept, key) > 0; }

std::string parameters_of(const std::string& command_line) {
  std::istringstream in(command_line);
  std::vector<std::string> kept;
  for (std::string word; in >> word;)
    if (std::ranges::count(kParameters, word.substr(0, word.find('='))) > 0) kept.push_back(word);
  return fmt::format("{}", fmt::join(kept, " "));
}

bool is_of_token(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == ':' || c == '.' || c == '-' ||
         c == '_';
}

// As the kernel writes a GID: eight groups of four digits.
std::string print_full(const Ipv6& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i)
    text += fmt::format("{}{:02x}", i > 0 && i % 2 == 0 ? ":" : "", bytes[i]);
  return text;
}

std::optional<std::array<uint8_t, 6>> parse_mac(const std::string& word) {
  std::array<uint8_t, 6> bytes{};
  if (word.size() != 17) return std::nullopt;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char* at = word.c_str() + 3 * i;
    if (!std::isxdigit(static_cast<unsigned char>(at[0])) ||
        !std::isxdigit(static_cast<unsigned char>(at[1])) || (i < 5 && at[2] != ':'))
      return std::nullopt;
    bytes[i] = static_cast<uint8_t>(std::stoi(word.substr(3 * i, 2), nullptr, 16));
  }
  return bytes;
}

// Those that mean the same everywhere: none, loopback, link-local without a number, multicast.
bool is_plain(uint32_t address) {
  const uint32_t first = address >> 24;
  return first == 0 || first == 127 || first >= 224 || address >> 16 == 0xa9fe;
}

}  // namespace

Anonymizer::Anonymizer() {
  if (RAND_bytes(key_.data(), static_cast<int>(key_.size())) != 1)
    throw Error(ErrorCode::system, "--anonymous: there are no random numbers");
}

void Anonymizer::permute(std::span<uint8_t> bytes, size_t first) const {
  const std::vector<uint8_t> before(bytes.begin(), bytes.end());
  std::vector<uint8_t> prefix(bytes.size() + 1);
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  for (size_t bit = first; bit < 8 * bytes.size(); ++bit) {
    // The bits before this one, the others 0, and how many they are.
    std::fill(prefix.begin(), prefix.end(), uint8_t{0});
    std::copy_n(before.begin(), bit / 8, prefix.begin());
    prefix[bit / 8] =
        static_cast<uint8_t>(before[std::min(bit / 8, before.size() - 1)] & ~(0xff >> (bit % 8)));
    prefix.back() = static_cast<uint8_t>(bit);
    unsigned int size = 0;
    HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), prefix.data(), prefix.size(),
         digest.data(), &size);
    bytes[bit / 8] ^= static_cast<uint8_t>((digest[0] & 1) << (7 - bit % 8));
  }
}

uint32_t Anonymizer::map4(uint32_t address) const {
  if (is_plain(address)) return address;
  std::array<uint8_t, 4> bytes{};
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(address >> (24 - 8 * i));
  permute(bytes, 8);
  uint32_t mapped = 0;
  for (const uint8_t byte : bytes) mapped = mapped << 8 | byte;
  return mapped;
}

Ipv6 Anonymizer::map6(const Ipv6& address) const {
  Ipv6 bytes = address;
  constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    uint32_t inner = 0;
    for (size_t i = 12; i < 16; ++i) inner = inner << 8 | bytes[i];
    inner = map4(inner);
    for (size_t i = 0; i < 4; ++i) bytes[12 + i] = static_cast<uint8_t>(inner >> (24 - 8 * i));
    return bytes;
  }
  // "::", "::1", multicast.
  const bool short_one =
      std::all_of(bytes.begin(), bytes.begin() + 8, [](uint8_t b) { return !b; });
  if (short_one || bytes[0] == 0xff) return bytes;
  const bool link_local = bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  permute(bytes, link_local ? 64 : 8);
  return bytes;
}

void Anonymizer::learn_name(const std::string& name) {
  if (name.empty() || hosts_.contains(name)) return;
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, name.c_str(), &four) == 1 || inet_pton(AF_INET6, name.c_str(), &six) == 1)
    return;
  // With and without its domain it is one host.
  const std::string plain = name.substr(0, name.find('.'));
  const auto known = hosts_.find(plain);
  const std::string alias =
      known != hosts_.end() ? known->second : fmt::format("host{}", 1 + hosts_.size());
  hosts_[plain] = alias;
  hosts_[name] = alias;
}

void Anonymizer::learn(const Snapshots& hosts) {
  for (const Snapshot& one : hosts) learn_name(one.host);
  for (const Snapshot& one : hosts)
    for (const char* variable : {"MASTER_ADDR", "RINGWOOD_HOST_ID"})
      if (const auto found = one.process.environment.find(variable);
          found != one.process.environment.end() && found->second != "localhost")
        learn_name(found->second);
}

std::string Anonymizer::host(const std::string& name) const {
  const auto found = hosts_.find(name);
  return found == hosts_.end() ? without_names(name) : found->second;
}

std::string Anonymizer::token(const std::string& word) const {
  if (const auto found = hosts_.find(word); found != hosts_.end()) return found->second;
  if (const auto found = hosts_.find(word.substr(0, word.find('.'))); found != hosts_.end())
    return found->second;  // with a domain that was not seen before
  in_addr four{};
  if (inet_pton(AF_INET, word.c_str(), &four) == 1) {
    four.s_addr = htonl(map4(ntohl(four.s_addr)));
    std::array<char, INET_ADDRSTRLEN> text{};
    return inet_ntop(AF_INET, &four, text.data(), text.size());
  }
  Ipv6 six{};
  if (inet_pton(AF_INET6, word.c_str(), six.data()) == 1) {
    six = map6(six);
    std::array<char, INET6_ADDRSTRLEN> text{};
    constexpr size_t kFull = 39;  // characters
    return word.size() == kFull ? print_full(six)
                                : inet_ntop(AF_INET6, six.data(), text.data(), text.size());
  }
  if (auto mac = parse_mac(word)) {
    permute(*mac, 8);
    return fmt::format("{:02x}", fmt::join(*mac, ":"));
  }
  return word;
}

std::string Anonymizer::without_names(const std::string& text) const {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (!is_of_token(text[at])) {
      result += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_of_token(text[end])) ++end;
    std::string word = text.substr(at, end - at);
    at = end;
    // The full stop, or the colon, of a sentence; but "fe80::" ends with its own.
    std::string stop;
    while (!word.empty() && (word.back() == '.' || word.back() == ':') && token(word) == word) {
      stop.insert(0, 1, word.back());
      word.pop_back();
    }
    result += token(word) + stop;
  }
  return result;
}

void Anonymizer::walk(const std::string& key, void* where) const {
  json& value = *static_cast<json*>(where);
  if (value.is_object()) {
    for (auto& [name, member] : value.items()) walk(name, &member);
    // A route's network is a number.
    if (value.contains("destination") && value.contains("mask")) {
      const uint32_t mask = value["mask"], destination = value["destination"];
      value["destination"] = map4(destination) & mask;
    }
  } else if (value.is_array()) {
    for (json& member : value) walk(key, &member);
  } else if (value.is_string() && !is_kept(key)) {
    const std::string text = value;
    value = key == "command_line" ? parameters_of(text) : without_names(text);
  }
}

Snapshots Anonymizer::without_names(const Snapshots& hosts) const {
  Snapshots result;
  for (const Snapshot& one : hosts) {
    json document = json::parse(to_text(one));
    walk("", &document);
    Snapshot changed = from_text(document.dump(), "--anonymous");
    changed.host = host(one.host);
    changed.token = fmt::format("{}-{}", changed.host, result.size());
    std::vector<ProcessState*> processes{&changed.process};
    for (ProcessState& other : changed.others) processes.push_back(&other);
    for (ProcessState* process : processes)
      for (auto& [name, value] : process->environment)
        if (value.find('/') != value.npos) value = "PATH";
    result.push_back(std::move(changed));
  }
  return result;
}

ProbeResult Anonymizer::without_names(const ProbeResult& probe) const {
  ProbeResult result = probe;
  for (std::optional<Matrix>* matrix : {&result.matrix, &result.by_rail}) {
    if (!*matrix) continue;
    for (std::string& name : (*matrix)->hosts) name = without_names(name);
    for (std::string& note : (*matrix)->notes) note = without_names(note);
  }
  for (Finding& one : result.findings) {
    one.host = without_names(one.host);
    one.evidence = without_names(one.evidence);
    for (std::string& command : one.commands) command = without_names(command);
  }
  for (NotChecked& one : result.not_checked) {
    one.host = without_names(one.host);
    one.reason = without_names(one.reason);
  }
  return result;
}

}  // namespace ringwood::tools::doctor
