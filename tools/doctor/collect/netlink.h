// A question to the kernel by rtnetlink, and its answers. Bounded: a second, 64 KiB for each
// datagram, 4096 answers. Any thread.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringwood::tools::doctor {

using Bytes = std::string_view;

// Every attribute of a list whose length fits into it.
void each_attribute(Bytes list, const std::function<void(int type, Bytes value)>& body);

// False: the value is too short.
template <class T>
bool copy(Bytes value, T& out) {
  if (value.size() < sizeof out) return false;
  std::memcpy(&out, value.data(), sizeof out);
  return true;
}

// The answers without their headers; of a dump, all of them. nullopt with `why`: the kernel refuses
// or is silent.
std::optional<std::vector<std::string>> ask_netlink(const std::string& request, std::string& why);

}  // namespace ringwood::tools::doctor
