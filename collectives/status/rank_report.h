// What a rank tells those who watch its group (`ringwood top`): the content of the reports of
// transports/control/status. Plain values; times in nanoseconds, of the rank's own steady clock,
// which is not that of other hosts: watchers compare only durations.
//
// Counters count since the group was made; a watcher takes the difference of two reports.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "collectives/schedule/collective.h"
#include "transports/base/bytes.h"
#include "transports/control/status/report_messages.h"

namespace ringwood {

inline constexpr uint8_t kNoCollective = 255;

// Of a track (runtime/tracks.h): the operation under way, or the last one.
struct TrackReport {
  int64_t sequence = -1;
  bool inside = false;
  uint8_t collective = kNoCollective;
  std::string text;              // "all_reduce float32 x 1024, sum (#17)"
  std::string algorithm;         // "" where it is not recorded
  int64_t since_ns = 0;          // inside: since it began, or was seen to wait; 0: not known yet
  bool agreed = true;            // inside: all ranks are known to have called it
  int waits_for = -1;            // inside: the peer that it waits for; -1: none is known
  uint32_t done = 0, steps = 0;  // steps of it that are done, as far as they are recorded
};

struct CallCount {
  uint8_t collective = 0;
  uint64_t operations = 0, bytes = 0;
};

// How the last window_ns were spent, from the operations that are recorded (recorder/recorder.h).
struct WindowReport {
  int64_t window_ns = 0;
  int64_t inside_ns = 0;  // in recorded operations; what overlaps counts once
  int64_t waited_ns = 0;  // of them: until all ranks had called
  uint32_t waits = 0;     // operations that waited so
  uint32_t whole = 0;     // operations with a prediction, long enough to be timed well
  int64_t moving_ns = 0;  // in those: from the call of the last rank to the end
  int64_t predicted_ns = 0;
};

// Operations of one kind in the last kKindsNs (window.h).
struct KindReport {
  uint8_t collective = 0;
  uint64_t bytes = 0;  // of one
  std::string algorithm;
  uint32_t operations = 0;  // that are recorded
  int64_t mean_ns = 0, predicted_ns = 0;
};

struct PeerReport {
  int peer = 0;
  uint64_t operations = 0;
  int64_t waited_ns = 0;
};

// A port, or an interface, over which the group's links go.
struct PathOfRank {
  std::string transport, port;  // "verbs", "mlx5_0/1"; "tcp", "eth0"; "shm", ""
  bool up = true;
  bool whole_port = false;  // the counters are the port's, which other programs may use too
  uint32_t peers = 0;       // that are reached so
  double carrying = 1;      // the part of their paths that carry now
  uint32_t fallbacks = 0;   // links of which bytes went another way
  uint64_t bytes = 0, retransmissions = 0;
};

struct EventReport {
  int64_t ago_ns = 0;
  std::string text;
};

struct RankReport {
  int rank = 0, size = 1, pid = 0;
  std::string host, group;  // names
  std::string host_token;   // equal on one host, and on no other
  int64_t now_ns = 0;       // when it was made
  std::string error;        // with which the group has ended; "" while it lives
  std::vector<TrackReport> tracks;
  std::vector<CallCount> counts;
  WindowReport window;
  std::vector<KindReport> kinds;
  std::vector<PeerReport> peers;  // for which it has waited longest
  std::vector<PathOfRank> paths;
  std::vector<EventReport> events;  // the last, the oldest first
};

inline constexpr uint16_t kRankReportVersion = 1;
inline constexpr size_t kMaxTracks = 4, kMaxKinds = 8, kMaxPeers = 8, kMaxPaths = 12,
                        kMaxEvents = 10, kMaxTrackText = 120, kMaxEventText = 200,
                        kMaxPathName = 24, kMaxRowName = 32, kMaxGroupName = 48, kMaxHostToken = 96,
                        kMaxErrorText = 400;

void number(auto& io, double& value) {
  auto bits = std::bit_cast<uint64_t>(value);
  io.number(bits);
  value = std::bit_cast<double>(bits);
}

void fields(auto& io, TrackReport& t) {
  io.number(t.sequence);
  io.number(t.inside);
  io.number(t.collective);
  io.text(t.text, kMaxTrackText);
  io.text(t.algorithm, kMaxRowName);
  io.number(t.since_ns);
  io.number(t.agreed);
  io.number(t.waits_for, -1, kMaxInt);
  io.number(t.done);
  io.number(t.steps);
}

void fields(auto& io, CallCount& c) {
  io.number(c.collective, 0, kCollectives - 1);
  io.number(c.operations);
  io.number(c.bytes);
}

void fields(auto& io, WindowReport& w) {
  for (int64_t* ns : {&w.window_ns, &w.inside_ns, &w.waited_ns, &w.moving_ns, &w.predicted_ns})
    io.number(*ns);
  io.number(w.waits);
  io.number(w.whole);
}

void fields(auto& io, KindReport& k) {
  io.number(k.collective, 0, kCollectives - 1);
  io.number(k.bytes);
  io.text(k.algorithm, kMaxRowName);
  io.number(k.operations);
  io.number(k.mean_ns);
  io.number(k.predicted_ns);
}

void fields(auto& io, PeerReport& p) {
  io.number(p.peer, 0, kMaxInt);
  io.number(p.operations);
  io.number(p.waited_ns);
}

void fields(auto& io, PathOfRank& p) {
  io.text(p.transport, kMaxPathName);
  io.text(p.port, kMaxPathName);
  io.number(p.up);
  io.number(p.whole_port);
  io.number(p.peers);
  number(io, p.carrying);
  io.number(p.fallbacks);
  io.number(p.bytes);
  io.number(p.retransmissions);
}

void fields(auto& io, EventReport& e) {
  io.number(e.ago_ns);
  io.text(e.text, kMaxEventText);
}

void fields(auto& io, RankReport& r) {
  io.constant(kRankReportVersion);
  io.number(r.rank, 0, kMaxInt - 1);
  io.number(r.size, 1, kMaxInt);
  io.number(r.pid, 0, kMaxInt);
  io.text(r.host, kMaxReportHost);
  io.text(r.group, kMaxGroupName);
  io.text(r.host_token, kMaxHostToken);
  io.number(r.now_ns);
  io.text(r.error, kMaxErrorText);
  const auto each = [&io](auto& value) { fields(io, value); };
  io.list(r.tracks, kMaxTracks, each);
  io.list(r.counts, kCollectives, each);
  fields(io, r.window);
  io.list(r.kinds, kMaxKinds, each);
  io.list(r.peers, kMaxPeers, each);
  io.list(r.paths, kMaxPaths, each);
  io.list(r.events, kMaxEvents, each);
}

}  // namespace ringwood
