// Makes Links (link.h). A transport is a folder, and a row of the table in transports.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transports/group.h"
#include "transports/link.h"

namespace ringwood {

// [channel][peer]; null if there is no link.
using LinkTable = std::vector<std::vector<std::unique_ptr<Link>>>;
inline LinkTable no_links(const Group& group, int channels) {
  LinkTable links(channels);
  for (auto& channel : links) channel.resize(group.size());
  return links;
}

class Transport {
 public:
  virtual ~Transport() = default;
  // Collective over the group; called once, by all ranks at the same point. `wanted[p]`: this rank
  // has no link to p yet (symmetric). Returns channels x size links; null if p is not reached
  // (symmetric too: both ends agree) or not wanted. Throws Error only if the group cannot go on at
  // all; a transport that is unusable here logs why in one line and reaches no rank.
  virtual LinkTable connect(const Group& group, const std::vector<bool>& wanted, int channels) = 0;
  // Called around a sleep in the wait set: after arm(), the next arrival rings it, once. A thread
  // therefore arms before every sleep, and polls its links between arm() and wait().
  virtual void arm() noexcept {}
  virtual void disarm() noexcept {}
  // Looks whether peers have ended whose end their links cannot see; the links say so then, to a
  // rank that waits for them. A system call: for a thread that has waited for long without a sleep.
  // arm() includes it.
  virtual void look_for_ends() noexcept {}
  // The device ports of its links, "mlx5_0/1"; none where it has no devices of its own. Any thread.
  virtual std::vector<std::string> ports() const { return {}; }
};

// One row per transport, in order of preference; transports.cc is the only table.
struct TransportRow {
  const char* name;
  const char* description;
  std::unique_ptr<Transport> (*make)();
  // Facts that others decide by; a row states only those that differ.
  bool one_process = false;  // it joins only threads of one process
  // The machine model prices its messages inside a host as copies, not as socket traffic.
  bool shared_memory = false;
};
std::span<const TransportRow> transport_table();

}  // namespace ringwood
