// How a link is made: queue pairs, an exchange of where they are, and a probe of every path in
// both directions, with packets as large as they will be, because a path that loses only those is
// common.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "transports/log.h"
#include "transports/verbs/link.h"
#include "transports/verbs/path/path_text.h"
#include "transports/wait_set.h"

namespace ringwood::verbs {
namespace {

constexpr int kVersion = 2;
constexpr uint32_t kPieceBytes = 64 << 10;
constexpr size_t kMostPaths = 128;

static_assert(kPieceBytes <= Registrations::kMostBytes);

uint32_t piece_bytes(uint64_t ring_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(kPieceBytes, ring_bytes / 8));
}

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
    if (hello.paths.size() > kMostPaths) throw std::runtime_error("too many paths");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::network,
                fmt::format("the peer's greeting over verbs: {}", error.what()));
  }
  return hello;
}

VerbsLink::VerbsLink(const Group& group, int peer, OwnedFd wire, std::vector<RailPair> rails,
                     const Rings& rings, size_t number)
    : options_(*group.options),
      rank_(group.rank()),
      peer_(peer),
      process_(current_pid()),
      ring_bytes_(rings.ring_bytes),
      ring_(rings.incoming(number).memory),
      scrap_(rings.scrap()),
      fault_(peer, "verbs"),
      wire_(std::move(wire)),
      out_(rings.outgoing(number), piece_bytes(rings.ring_bytes), kMostPieces),
      in_(rings.incoming(number), kMostPieces),
      traffic_class_(group.options->verbs.traffic_class),
      service_level_(group.options->verbs.service_level) {
  for (RailPair& pair : rails)
    lanes_.push_back({std::move(pair.rail), pair.peer, nullptr, 0, pair.far});
  failure_ = rings.failure;
  make_paths();
  if (options_.verbs.registered_bytes > 0) arena_ = Arena::of_process();
}

PathSetting VerbsLink::setting() const {
  return {.mtu = 1024,
          .traffic_class = traffic_class_,
          .service_level = service_level_,
          .timeout = options_.verbs.timeout,
          .retries = options_.verbs.retries,
          .partition = options_.verbs.partition};
}

void VerbsLink::make_paths() {
  const int each = std::max(
      1, std::min(options_.verbs.queue_pairs, static_cast<int>(kMostPaths / lanes_.size())));
  for (size_t lane = 0; lane < lanes_.size() && failure_.empty(); ++lane) {
    lanes_[lane].queue = lanes_[lane].rail->channel().make_queue(each * (kSends + kReceives));
    if (!lanes_[lane].queue) {
      failure_ = system_message("ibv_create_cq");
      return;
    }
    for (int i = 0; i < each && failure_.empty(); ++i) {
      End& end = ends_.emplace_back();
      end.path = std::make_unique<Path>(lanes_[lane].rail);
      end.lane = lane;
      end.path->make(lanes_[lane].queue, setting(), failure_);
    }
  }
}

// The lower rank asks, the higher answers.
void VerbsLink::greet() {
  if (rank_ < peer_) tell_ends();
}

void VerbsLink::tell_ends() {
  Hello hello;
  hello.failure = failure_;
  hello.ring_bytes = ring_bytes_;
  hello.ring = reinterpret_cast<uintptr_t>(ring_);
  hello.traffic_class = traffic_class_;
  hello.service_level = service_level_;
  if (failure_.empty()) {
    for (const Lane& lane : lanes_) hello.keys.push_back(lane.rail->memory().rings()->rkey);
    for (const End& end : ends_) hello.paths.push_back(end.path->end());
  }
  const std::string text = print(hello);
  wire_.queue({.type = FrameType::hello}, std::as_bytes(std::span(text)));
  wire_.flush();
}

void VerbsLink::connect(Deadline deadline, Deadline patience) {
  Frame frame;
  std::vector<std::byte> payload;
  if (!wire_.await(frame, payload, deadline) || frame.type != FrameType::hello) {
    if (failure_.empty()) failure_ = "the peer did not say where its queue pairs are";
    return;
  }
  Hello theirs;
  try {
    theirs = parse_hello({reinterpret_cast<const char*>(payload.data()), payload.size()});
  } catch (const Error& error) {
    if (failure_.empty()) failure_ = error.cause;
  }
  if (failure_.empty()) agree(theirs);
  if (rank_ > peer_) tell_ends();
  if (failure_.empty()) connect_paths(theirs, patience);
}

// What concerns both ends and must be known before the answer.
void VerbsLink::agree(const Hello& theirs) {
  if (!theirs.failure.empty()) {
    failure_ = "at the peer: " + theirs.failure;
  } else if (theirs.ring_bytes != ring_bytes_ || theirs.paths.size() != ends_.size() ||
             theirs.keys.size() != lanes_.size()) {
    failure_ = fmt::format(
        "RINGWOOD_VERBS_RING_BYTES or RINGWOOD_VERBS_QPS differ: {} and {} here, {} and {} there",
        ring_bytes_, ends_.size(), theirs.ring_bytes, theirs.paths.size());
  }
  for (size_t i = 0; failure_.empty() && i < ends_.size(); ++i)
    ends_[i].path->agree(theirs.paths[i].ece);
}

void VerbsLink::connect_paths(const Hello& theirs, Deadline patience) {
  // One class for both directions: the lower rank's.
  if (peer_ < rank_) {
    traffic_class_ = theirs.traffic_class;
    service_level_ = theirs.service_level;
  }
  peer_ring_ = theirs.ring;
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].key = theirs.keys[i];
  for (size_t i = 0; i < ends_.size(); ++i) {
    const Lane& lane = lanes_[ends_[i].lane];
    PathSetting used = setting();
    used.mtu = std::min(lane.rail->offer().mtu, lane.peer.mtu);
    if (!ends_[i].path->connect(theirs.paths[i], lane.peer, used, patience, failure_)) return;
    ends_[i].path->use();
    log(LogLevel::info, "verbs",
        fmt::format("rank {} to {}: {} {} GID {} [{}] to {} {}, path MTU {}, traffic class {} "
                    "(DSCP {}), service level {}, timeout {}, retries {}",
                    rank_, peer_, lane.rail->offer().name,
                    lane.peer.infiniband ? "InfiniBand" : "RoCE", to_string(lane.rail->offer().gid),
                    lane.rail->port().gid_index(), lane.peer.name, to_string(lane.peer.gid),
                    used.mtu, traffic_class_, traffic_class_ >> 2, service_level_, used.timeout,
                    used.retries));
  }
}

void VerbsLink::use(WaitSet& wait_set, std::shared_ptr<const std::atomic<unsigned>> look) {
  keep_alive(wire_.fd(), kDataIdle, host_patience(options_.heartbeat));
  watch_ = HostWatch(host_patience(options_.heartbeat));
  wait_set.add(wire_.fd(), EPOLLIN | EPOLLOUT);
  look_ = std::move(look);
  in_use_ = true;
}

void VerbsLink::begin_probe() {
  if (!failure_.empty()) return;
  probe_out_.assign(kProbeBytes, std::byte{0x5a});
  probe_in_.assign(kProbeBytes * ends_.size(), std::byte{0});
  for (size_t i = 0; i < ends_.size(); ++i)
    in_.post(probe_in_.data() + i * kProbeBytes, kProbeBytes);
}

// One message for each path; paths take turns. Polled until then, so that none is written together
// with another.
bool VerbsLink::probe_ended() {
  if (!failure_.empty()) return true;
  if (probes_ < ends_.size() && out_.idle()) {
    out_.post(probe_out_.data(), kProbeBytes);
    ++probes_;
  }
  if (Status s = move(); !s) failure_ = s.error().cause;
  for (const End& end : ends_)
    if (end.path->state() != Path::State::alive && failure_.empty())
      failure_ = "a path failed at once";
  if (!failure_.empty()) return true;
  return probes_ == ends_.size() && in_.received() == ends_.size() &&
         std::all_of(ends_.begin(), ends_.end(), [](const End& end) { return end.path->quiet(); });
}

void VerbsLink::end_probe() {
  if (failure_.empty() && (probes_ < ends_.size() || in_.received() < ends_.size())) {
    failure_ = fmt::format(
        "{}: nothing came through: compare both GIDs, the subnets and routes "
        "between them, VLAN and MTU of the switches, and let UDP port 4791 "
        "through",
        lanes_.empty() ? "?" : lanes_[0].rail->offer().name);
  }
}

void VerbsLink::tell_verdict() {
  wire_.queue({.type = FrameType::verdict, .path = uint8_t(failure_.empty() ? 1 : 0)});
  wire_.flush();
}

// A peer that was faster has told already, while we were probing.
void VerbsLink::take_verdict(Deadline deadline) {
  Frame frame;
  std::vector<std::byte> payload;
  while (peer_verdict_ < 0 && wire_.await(frame, payload, deadline)) {
    if (!take_frame(frame, payload)) break;
  }
  if (failure_.empty() && peer_verdict_ != 1) failure_ = "the peer could not: see its log";
  peer_verdict_ = -1;
}

}  // namespace ringwood::verbs
