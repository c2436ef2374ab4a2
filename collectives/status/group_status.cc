#include "collectives/status/group_status.h"

#include <algorithm>
#include <utility>

#include "collectives/status/window.h"
#include "transports/base/host.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

// The links of a peer that carry collectives, added up.
struct Carried {
  LinkTraffic traffic;
  uint32_t fallbacks = 0;
};

Carried carried_by(const Peer& peer, int in_flight) {
  Carried all;
  for (int track = 0; track < in_flight; ++track) {
    const Link* link = peer.link[collective_channel(track)].get();
    if (!link) continue;
    all.fallbacks += link->fallback() != nullptr;
    const auto one = link->traffic();
    if (!one) continue;
    all.traffic.bytes += one->bytes;
    all.traffic.retransmissions += one->retransmissions;
    all.traffic.carrying = std::min(all.traffic.carrying, one->carrying);
  }
  return all;
}

// What is recorded of a track that is in an operation.
void describe(TrackReport& track, const Recorder& recorder, const OperationRecord& running) {
  track.algorithm = algorithm_of(running.call);
  track.since_ns = running.entered_ns ? running.entered_ns : running.waiting_ns;
  track.agreed = running.agreed_ns != 0;
  track.waits_for = running.waited_for;
  track.steps = running.steps;
  track.done = static_cast<uint32_t>(recorder.steps_of(running).size());
}

// The text begins with its name and a space.
uint8_t collective_in(const std::string& text) {
  for (const CollectiveTraits& row : kCollectiveTraits)
    if (text.starts_with(std::string(row.name) + ' ')) return static_cast<uint8_t>(row.collective);
  return kNoCollective;
}

std::vector<EventReport> events_of_process() {
  std::vector<LoggedLine> lines = last_logged();
  if (lines.size() > kMaxEvents)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMaxEvents));
  std::vector<EventReport> events;
  const auto now = Clock::now();
  for (LoggedLine& line : lines)
    events.push_back({Duration(now - line.at).count(), std::move(line.text)});
  return events;
}

void add_counts(RankReport& report, const Recorder& recorder) {
  for (int collective = 0; collective < kCollectives; ++collective) {
    const CallTotals count = recorder.count(static_cast<Collective>(collective));
    if (count.operations > 0)
      report.counts.push_back({static_cast<uint8_t>(collective), count.operations, count.bytes});
  }
}

void add_peers(RankReport& report, const Recorder& recorder) {
  for (int peer = 0; peer < report.size; ++peer) {
    const PeerWaits waits = recorder.waits_for(peer);
    if (waits.operations > 0) report.peers.push_back({peer, waits.operations, waits.waited_ns});
  }
  std::ranges::sort(report.peers, std::ranges::greater(), &PeerReport::waited_ns);
  if (report.peers.size() > kMaxPeers) report.peers.resize(kMaxPeers);
}

}  // namespace

void GroupStatus::use(const Mesh& mesh, const Recorder& recorder) {
  std::vector<std::string> ports;
  for (const auto& transport : mesh.transports)
    for (std::string& port : transport->ports()) ports.push_back(std::move(port));
  ports_ = PortCounters(ports);
  recorder_ = &recorder;
  begun_ns_ = clock_ns();
  mesh_.store(&mesh, std::memory_order_release);
}

std::string GroupStatus::report(const OpStatuses& op_statuses, const std::string& error) const {
  const Mesh* const mesh = mesh_.load(std::memory_order_acquire);
  if (!mesh) return {};
  RankReport report;
  report.rank = mesh->rank;
  report.size = mesh->size;
  report.pid = mesh->process;
  report.host = host_name();
  report.host_token = mesh->hosts[static_cast<size_t>(mesh->rank)];
  report.group = recorder_->group().name;
  report.now_ns = clock_ns();
  report.error = error;
  add_records(report, op_statuses);
  add_counts(report, *recorder_);
  add_peers(report, *recorder_);
  add_paths(report, *mesh);
  report.events = events_of_process();
  return encode(report);
}

void GroupStatus::add_records(RankReport& report, const OpStatuses& op_statuses) const {
  const std::vector<OperationRecord> running = recorder_->running();
  for (const OpStatus& op : op_statuses) {
    if (op.sequence < 0 || report.tracks.size() == kMaxTracks) continue;
    TrackReport track;
    track.sequence = op.sequence;
    track.inside = op.inside;
    track.collective = collective_in(op.text);
    track.text = op.text;
    for (const OperationRecord& one : running)
      if (op.inside && one.call.sequence == static_cast<uint64_t>(op.sequence))
        describe(track, *recorder_, one);
    report.tracks.push_back(std::move(track));
  }
  std::vector<OperationRecord> records = recorder_->latest();
  const int64_t complete = complete_since(records, recorder_->written(), begun_ns_, report.now_ns);
  report.kinds = kinds_of(records, report.now_ns - kKindsNs);
  records.insert(records.end(), running.begin(), running.end());
  report.window = window_of(records, report.now_ns, complete);
}

void GroupStatus::add_paths(RankReport& report, const Mesh& mesh) const {
  std::vector<PathOfRank> paths;  // one per transport
  for (const Peer& peer : mesh.peers) {
    if (peer.transport.empty()) continue;
    auto path = std::ranges::find(paths, peer.transport, &PathOfRank::transport);
    if (path == paths.end())
      path = paths.insert(paths.end(), PathOfRank{.transport = peer.transport, .port = {}});
    const Carried carried = carried_by(peer, mesh.in_flight);
    ++path->peers;
    path->fallbacks += carried.fallbacks;
    path->carrying = std::min(path->carrying, carried.traffic.carrying);
    path->bytes += carried.traffic.bytes;
    path->retransmissions += carried.traffic.retransmissions;
  }
  const auto ports = ports_.read();
  for (PathOfRank& path : paths) {
    if (path.transport == "tcp") {
      path.port = mesh.interface;
      path.up = interface_is_up(mesh.interface);
    }
    if (path.transport != "verbs" || ports.empty()) {
      report.paths.push_back(path);
      continue;
    }
    for (const auto& [port, count] : ports) {
      path.port = port;
      path.whole_port = true;
      path.up = count.up;
      path.bytes = count.bytes;
      path.retransmissions = count.retransmissions;
      report.paths.push_back(path);
    }
  }
  if (report.paths.size() > kMaxPaths) report.paths.resize(kMaxPaths);
}

}  // namespace ringwood
