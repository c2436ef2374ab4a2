// Snapshots and findings without the names and addresses of their hosts, so that they can be sent
// to others and still be diagnosed.
//
// Hosts become host1, host2, ... Addresses become others of the same class and of the same
// networks: two that begin with the same bits still do (as Crypto-PAn by Xu, Fan, Ammar and Moon,
// 2002, over HMAC-SHA-256), the first eight bits of all and the prefix of link-local ones stay.
// Paths in variables and what the kernel was started with are left out but for what rules look at.
// The key is random and dies with the object, so nobody can undo it, and two runs differ.
// Throws Error(system) if there are no random numbers. Thread safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "tools/doctor/probe.h"
#include "tools/doctor/rules/rules.h"

namespace ringwood::tools::doctor {

class Anonymizer final {
 public:
  Anonymizer();

  // All hosts first, then what speaks of them.
  void learn(const Snapshots& hosts);
  void learn_name(const std::string& name);

  Snapshots without_names(const Snapshots& hosts) const;
  ProbeResult without_names(const ProbeResult& probe) const;
  // Names and addresses in a sentence.
  std::string without_names(const std::string& text) const;

 private:
  std::string host(const std::string& name) const;
  std::string token(const std::string& word) const;
  void walk(const std::string& key, void* json) const;
  uint32_t map4(uint32_t address) const;
  std::array<uint8_t, 16> map6(const std::array<uint8_t, 16>& address) const;
  // Changes each bit from `first` on by a function of those before it.
  void permute(std::span<uint8_t> bytes, size_t first) const;

  std::array<uint8_t, 32> key_;
  std::map<std::string, std::string> hosts_;  // by name
};

}  // namespace ringwood::tools::doctor
