// What the first ranks of hosts tell rank 0 while the group agrees on its parameters, and what it
// tells them (group_model.h).
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "transports/base/bytes.h"

namespace ringwood {

inline constexpr size_t kMaxModelText = 256 << 10, kMaxFacts = 4096;

// About a host.
struct HostFacts {
  std::string name;
  std::string facts;       // its processors, interfaces and transports, in one line
  std::string parameters;  // print(MachineModel) of this host alone; empty: not asked for
  std::string cores;       // cores_token()
};

// A part of the probe (probe.h), or its end.
enum class ProbeStage : uint8_t { ping, alone, near, far, busy, end };

// The other hosts' ranks with which a host carries out a stage; -1: none.
struct ProbeStep {
  ProbeStage stage = ProbeStage::end;
  int to = -1, from = -1;  // sends to, and receives from
  int pings = -1;          // measures the latency with
  bool first = false;      // of the pair in `pings` or, in `alone`, in `to`: begins
  double rate = 0;         // bytes/s to expect, where this host has not measured it
  std::string parameters;  // at the end: the group's
};

struct ProbeReport {
  double latency = 0, rate = 0;  // seconds, bytes/s; 0: not measured
  // Seconds of a core at one end, for a message and for a byte; likewise.
  double post = 0, byte = 0;
  // Over RDMA: for each of many messages that follow each other, of a core that does not sleep.
  double streamed = 0;
  double burst = 0;  // bytes that its port passed at once
};

void real(auto& io, double& value) {
  auto bits = std::bit_cast<uint64_t>(value);
  io.number(bits);
  value = std::bit_cast<double>(bits);
}

void fields(auto& io, HostFacts& host) {
  io.text(host.name, kMaxFacts);
  io.text(host.facts, kMaxFacts);
  io.blob(host.parameters, kMaxModelText);
  io.text(host.cores, kMaxFacts);
}

void fields(auto& io, ProbeStep& step) {
  io.number(step.stage, ProbeStage::ping, ProbeStage::end);
  io.number(step.to);
  io.number(step.from);
  io.number(step.pings);
  io.number(step.first);
  real(io, step.rate);
  io.blob(step.parameters, kMaxModelText);
}

void fields(auto& io, ProbeReport& report) {
  for (double* value :
       {&report.latency, &report.rate, &report.post, &report.byte, &report.streamed, &report.burst})
    real(io, *value);
}

}  // namespace ringwood
