// The paths of a link: what completes, what fails, and how it goes on over the others.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transports/log.h"
#include "transports/verbs/link.h"

namespace ringwood::verbs {
namespace {

constexpr size_t kMostQueuedBytes = 256 << 10;  // on the wire, beyond the kernel's buffers
constexpr int kBatch = 16;

}  // namespace

// Until they are empty: what came before they were armed is not announced again.
void VerbsLink::read_queues() {
  std::array<ibv_wc, kBatch> completions;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    for (int n = lanes_[lane].unreadable ? 0 : kBatch; n == kBatch;) {
      n = ibv_poll_cq(lanes_[lane].queue, kBatch, completions.data());
      for (int i = 0; i < n; ++i) read(lane, completions[i]);
      lanes_[lane].unreadable = n < 0;
    }
    if (!lanes_[lane].unreadable) continue;
    for (End& end : ends_)
      if (end.lane == lane) fail_path(end, kUnreadable);
  }
}

void VerbsLink::read(size_t lane, const ibv_wc& completion) {
  const auto found = std::find_if(ends_.begin(), ends_.end(), [&](const End& end) {
    return end.lane == lane && end.path->number() == completion.qp_num;
  });
  if (found == ends_.end()) return;
  Path& path = *found->path;
  const bool receive = (completion.wr_id & kIsReceive) != 0;
  if (receive) path.received();
  if (completion.status == IBV_WC_SUCCESS) {
    if (path.state() == Path::State::proving && take_probe(*found, receive, completion.wr_id))
      return;
    if (receive) return arrived(ntohl(completion.imm_data), completion.byte_len);
    return path.completed(completion.wr_id);
  }
  if (completion.status == IBV_WC_WR_FLUSH_ERR && !path.connected()) return;
  const PathSetting used = setting();
  fail_path(*found, explain({.status = completion.status,
                             .name = path.rail().port().library().wc_status_str(completion.status),
                             .vendor_error = completion.vendor_err,
                             .proven = path.carried(),
                             .timeout = used.timeout,
                             .retries = used.retries}));
}

void VerbsLink::arrived(uint32_t immediate, uint32_t bytes) {
  const bool credit = unpack(immediate, 0).credit;
  const uint64_t position = unpack(immediate, credit ? out_.credit() : in_.arrived()).position;
  const bool right = credit ? out_.credit(position) : in_.arrive(position, bytes);
  if (!right)
    fault_.set(ErrorCode::internal,
               fmt::format("the peer announced a {} of {} bytes at {}, where none can be",
                           credit ? "credit" : "piece", bytes, position));
}

// ---- failure -----------------------------------------------------------------------------------

void VerbsLink::fail_path(End& end, const std::string& why) {
  if (!end.path->connected()) return;
  end.path->close();
  if (!end.carrying) return not_reopened(end, why);
  end.attempts.lost(Clock::now());
  in_.repeat_credit();  // one may have been lost
  if (wire_.closed()) return;
  const Lane& lane = lanes_[end.lane];
  const auto left = std::count_if(ends_.begin(), ends_.end(), [](const End& other) {
    return other.path->state() == Path::State::alive;
  });
  log(LogLevel::warn, "verbs",
      fmt::format("{} dropped, {} (GID {}) to {} (GID {}): {}; what was not acknowledged goes over "
                  "{}",
                  path_name(end), lane.rail->offer().name, to_string(lane.rail->offer().gid),
                  lane.peer.name, to_string(lane.peer.gid), why,
                  left > 0 ? fmt::format("the {} left", left) : "TCP"));
}

// Closes what must be closed, and goes on where both sides have.
void VerbsLink::watch_paths() {
  bool all_over = true;
  for (size_t i = 0; i < ends_.size(); ++i) {
    End& end = ends_[i];
    if (end.path->connected() && end.path->interrupted())
      fail_path(end, lanes_[end.lane].rail->events().why_down());
    if (end.path->state() == Path::State::closing) end.path->settle();
    if (end.path->overdue()) destroy(*end.path);
    if (end.path->state() == Path::State::closed && !end.told) {
      wire_.queue({.type = FrameType::path_down, .path = static_cast<uint8_t>(i)});
      end.told = true;
    }
    if (end.told && end.peer_closed && !end.replayed) end_life(end);
    all_over = all_over && !end.carrying;
  }
  on_wire_ = all_over;
}

// What was posted to it does not come back. Not while abort() looks at the paths.
void VerbsLink::destroy(Path& path) {
  AbortGate::Pass pass(gate_);
  if (!pass || path.destroy()) return;
  fault_.set(ErrorCode::network,
             fmt::format("{} does not give back what was posted to it ({}): look at the kernel's "
                         "log",
                         path.rail().offer().name, system_message("ibv_destroy_qp")));
}

void VerbsLink::end_life(End& end) {
  end.replayed = true;
  if (end.carrying) replay(static_cast<size_t>(&end - ends_.data()));
  end.carrying = false;
}

void VerbsLink::replay(size_t path) {
  in_.repeat_credit();
  for (size_t i = 0; i < out_.pieces().size(); ++i) {
    Piece& piece = out_.pieces()[i];
    if (piece.landed || piece.path != static_cast<int>(path)) continue;
    if (ends_[path].path->finished(piece.number) || out_.read(piece)) {
      piece.landed = true;
    } else {
      end_registration(piece);
      piece.path = -1;
      piece.replayed = true;
      ++again_;
    }
  }
}

// ---- writing -----------------------------------------------------------------------------------

// The one with the least on its way, so that faster rails carry more; then the nearest.
int VerbsLink::choose_path() {
  const auto better = [&](const End& a, const End& b) {
    const size_t ours = a.path->bytes_on_their_way(), theirs = b.path->bytes_on_their_way();
    return ours != theirs ? ours < theirs : lanes_[a.lane].far < lanes_[b.lane].far;
  };
  int best = -1;
  for (size_t i = 0; i < ends_.size(); ++i) {
    const size_t at = (next_path_ + i) % ends_.size();
    if (!ends_[at].path->can_send()) continue;
    if (best < 0 || better(ends_[at], ends_[best])) best = static_cast<int>(at);
  }
  return best;
}

bool VerbsLink::can_write() {
  return on_wire_ ? wire_.queued() < kMostQueuedBytes && !wire_.closed() : choose_path() >= 0;
}

bool VerbsLink::landed(const Piece& piece) const {
  return piece.landed || (piece.path >= 0 && ends_[piece.path].path->finished(piece.number));
}

// For the device to read the piece; copies it where that needs a registration and there is none.
uint32_t VerbsLink::own_key(Piece& piece, Rail& rail) {
  if (piece.lent) {
    Registrations* const lent = rail.memory().registrations();
    piece.registration = lent ? lent->use(piece.lent, piece.bytes) : nullptr;
    if (piece.registration) return piece.registration->key;
    out_.copy(piece);
  }
  return rail.memory().rings()->lkey;
}

bool VerbsLink::write(Piece& piece) {
  if (on_wire_) {
    detour_ = true;
    wire_.queue({.type = FrameType::data, .position = piece.position},
                {out_.at(piece), piece.bytes});
    piece.path = static_cast<int>(ends_.size());
    piece.landed = true;  // in order with all that will ever follow
    return true;
  }
  const int chosen = choose_path();
  if (chosen < 0) return false;
  End& end = ends_[chosen];
  const uint32_t own = own_key(piece, *lanes_[end.lane].rail);
  const uint64_t number = end.path->write({.from = out_.at(piece),
                                           .bytes = piece.bytes,
                                           .to = peer_ring_ + piece.position % ring_bytes_,
                                           .key = lanes_[end.lane].key,
                                           .immediate = pack({false, piece.position}),
                                           .own_key = own,
                                           .signalled = piece.replayed || piece.lent});
  if (number == 0) {
    end_registration(piece);
    fail_path(end, system_message("ibv_post_send"));
    return false;
  }
  piece.path = chosen;
  piece.number = number;
  next_path_ = (static_cast<size_t>(chosen) + 1) % ends_.size();
  return true;
}

void VerbsLink::write_pieces() {
  out_.forget([&](const Piece& piece) { return landed(piece); });
  for (size_t i = 0; again_ > 0 && i < out_.pieces().size() && can_write(); ++i) {
    Piece& piece = out_.pieces()[i];
    if (piece.path >= 0) continue;
    if (!write(piece)) return;
    --again_;
  }
  while (again_ == 0 && can_write()) {
    Piece* piece = out_.next();
    if (!piece) return;
    if (write(*piece)) continue;
    ++again_;
    return;
  }
}

void VerbsLink::give_credit() {
  if (!in_.credit_due() || wire_.closed()) return;
  if (on_wire_) {
    wire_.queue({.type = FrameType::credit, .position = in_.credit()});
    in_.credit_sent();
    return;
  }
  const int chosen = choose_path();
  if (chosen < 0) return;
  End& end = ends_[chosen];
  // The peer may use what it is told at once.
  for (End& each : ends_)
    if (!each.path->renew_receives(true)) fail_path(each, system_message("ibv_post_recv"));
  if (!end.path->can_send()) return;
  // While probing, a path without a word from the device would count as not quiet yet.
  if (end.path->write({.immediate = pack({true, in_.credit()}), .signalled = !in_use_}) == 0)
    return fail_path(end, system_message("ibv_post_send"));
  in_.credit_sent();
}

// ---- the wire ----------------------------------------------------------------------------------

void VerbsLink::read_wire() {
  wire_.receive([&](const Frame& frame, std::span<const std::byte> payload) {
    if (!take_frame(frame, payload))
      fault_.set(ErrorCode::internal, "the peer sent what cannot be understood over the wire");
    return true;
  });
}

bool VerbsLink::take_frame(const Frame& frame, std::span<const std::byte> payload) {
  switch (frame.type) {
    case FrameType::path_down:
      if (frame.path >= ends_.size()) return false;
      fail_path(ends_[frame.path], "the peer closed it");
      ends_[frame.path].peer_closed = true;
      return true;
    case FrameType::verdict: peer_verdict_ = frame.path == 1 ? 1 : 0; return true;
    case FrameType::credit: return out_.credit(frame.position);
    case FrameType::data: detour_ = true; return in_.take(frame.position, payload);
    default: return take_reopening(frame, payload);
  }
}

}  // namespace ringwood::verbs
