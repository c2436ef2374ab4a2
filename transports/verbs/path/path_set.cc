#include "transports/verbs/path/path_set.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "transports/base/log.h"
#include "transports/verbs/path/explain.h"

namespace ringwood::verbs {

std::string LinkRail::in_words() const {
  return fmt::format("{} (GID {}) to {} (GID {})", rail->address().name,
                     to_string(rail->address().gid), peer.name, to_string(peer.gid));
}

PathSet::PathSet(LinkState& link, PathEvents& events)
    : link_(link),
      events_(events),
      setting_{.mtu = 1024,
               .traffic_class = link.options.traffic_class,
               .service_level = link.options.service_level,
               .timeout = link.options.timeout,
               .retries = link.options.retries,
               .partition = link.options.partition} {}

bool PathSet::make(std::vector<RailPair> pairs, std::string& why) {
  const int each = queue_pairs_of_rail(link_.options.queue_pairs, static_cast<int>(pairs.size()));
  for (RailPair& pair : pairs) {
    LinkRail& rail = rails_.emplace_back(std::move(pair), each * (kSends + kReceives));
    if (!rail.queue.get()) {
      why = system_message("ibv_create_cq");
      return false;
    }
    for (int i = 0; i < each; ++i) {
      PathSlot& slot = slots_.emplace_back();
      slot.index = slots_.size() - 1;
      slot.rail = &rail;
      slot.path = std::make_unique<Path>(rail.rail);
      if (!slot.path->make(rail.queue.get(), setting_, why)) return false;
    }
  }
  return true;
}

bool PathSet::connect(Path& path, const LinkRail& rail, const PathEnd& theirs, Deadline patience,
                      std::string& why) const {
  PathSetting used = setting_;
  used.mtu = rail.mtu();
  return path.connect(theirs, rail.peer, used, patience, why);
}

std::string PathSet::name(const PathSlot& slot) const {
  return fmt::format("rank {}: path {} of {} to rank {}", link_.rank, slot.index + 1, slots_.size(),
                     link_.peer);
}

// ---- what completes ----------------------------------------------------------------------------

void PathSet::read() {
  for (LinkRail& rail : rails_) {
    rail.queue.read([&](const ibv_wc& completion) { take(rail, completion); });
    if (!rail.queue.unreadable()) continue;
    for (PathSlot& slot : slots_)
      if (slot.rail == &rail) fail(slot, kUnreadable);
  }
}

void PathSet::take(LinkRail& rail, const ibv_wc& completion) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const PathSlot& slot) {
    return slot.rail == &rail && slot.path->pair().number() == completion.qp_num;
  });
  if (found == slots_.end()) return;
  Path& path = *found->path;
  const bool receive = (completion.wr_id & kIsReceive) != 0;
  if (receive) path.received();
  if (completion.status == IBV_WC_SUCCESS) {
    if (path.state() == Path::State::proving && events_.proving(*found, receive, completion.wr_id))
      return;
    if (receive) return events_.arrived(ntohl(completion.imm_data), completion.byte_len);
    const size_t open = path.writes().open_bytes();
    path.writes().complete(completion.wr_id);
    landed_ += open - path.writes().open_bytes();
    return;
  }
  if (completion.status == IBV_WC_WR_FLUSH_ERR && !path.connected()) return;
  fail(*found, explain({.status = completion.status,
                        .name = rail.rail->port().library().wc_status_str(completion.status),
                        .vendor_error = completion.vendor_err,
                        .proven = path.writes().any_completed(),
                        .timeout = setting_.timeout,
                        .retries = setting_.retries}));
}

void PathSet::renew_receives(bool all) {
  for (PathSlot& slot : slots_)
    if (!slot.path->renew_receives(all)) fail(slot, system_message("ibv_post_recv"));
}

// ---- what fails --------------------------------------------------------------------------------

void PathSet::fail(PathSlot& slot, const std::string& why) {
  if (!slot.path->connected()) return;
  slot.path->close();
  if (!slot.carrying) return events_.not_proven(slot, why);
  events_.lost(slot);
  if (link_.fallback.closed()) return;
  const auto left = std::count_if(slots_.begin(), slots_.end(), [](const PathSlot& other) {
    return other.path->state() == Path::State::alive;
  });
  log(LogLevel::warn, "verbs",
      fmt::format("{} dropped, {}: {}; what was not acknowledged goes over {}", name(slot),
                  slot.rail->in_words(), why, left > 0 ? fmt::format("the {} left", left) : "TCP"));
}

void PathSet::watch() {
  bool all_over = true;
  for (PathSlot& slot : slots_) {
    Path& path = *slot.path;
    if (path.connected() && path.interrupted()) fail(slot, slot.rail->rail->events().why_down());
    if (path.state() == Path::State::closing) path.drain();
    if (path.overdue()) destroy(slot);
    if (path.state() == Path::State::closed && !closed_here(slot.ends)) {
      link_.fallback.queue(
          {.type = FrameType::path_down, .path = static_cast<uint8_t>(slot.index)});
      slot.ends = after_closing_here(slot.ends);
    }
    if (slot.ends == PathEnds::both) end_life(slot);
    all_over = all_over && !slot.carrying;
  }
  none_left_ = all_over;
}

// For a path that does not return what was posted to it. Not while abort() reads the paths.
void PathSet::destroy(PathSlot& slot) {
  AbortGate::Access access(link_.gate);
  if (!access || slot.path->destroy()) return;
  link_.fault.set(
      ErrorCode::network,
      fmt::format("{} does not give back what was posted to it ({}): look at the kernel's log",
                  slot.rail->rail->address().name, system_message("ibv_destroy_qp")));
}

bool PathSet::take_path_down(size_t index) {
  if (index >= slots_.size()) return false;
  fail(slots_[index], "the peer closed it");
  slots_[index].ends = after_closing_there(slots_[index].ends);
  return true;
}

void PathSet::end_life(PathSlot& slot) {
  slot.ends = PathEnds::over;
  if (slot.carrying) events_.ended(slot);
  slot.carrying = false;
}

// What the old queue pair left in the completion queue is read before another can get its number.
// Not while abort() reads the paths.
bool PathSet::replace(PathSlot& slot, std::unique_ptr<Path> fresh) {
  {
    AbortGate::Access access(link_.gate);
    if (!access) return false;
    slot.path = std::move(fresh);
  }
  slot.ends = PathEnds::open;
  slot.reopening.probe_arrived = slot.reopening.probe_landed = false;
  read();
  return true;
}

void PathSet::close() {
  for (PathSlot& slot : slots_) slot.path->close();
}

void PathSet::stop() noexcept {
  for (PathSlot& slot : slots_) slot.path->stop();
}

// ---- what carries ------------------------------------------------------------------------------

// The path with the least on its way, so that faster rails carry more; then the nearest.
PathSlot* PathSet::choose() {
  const auto better = [](const PathSlot& a, const PathSlot& b) {
    const size_t ours = a.path->writes().open_bytes(), theirs = b.path->writes().open_bytes();
    return ours != theirs ? ours < theirs : a.rail->far < b.rail->far;
  };
  PathSlot* best = nullptr;
  for (size_t i = 0; i < slots_.size(); ++i) {
    PathSlot& slot = slots_[(next_ + i) % slots_.size()];
    if (slot.path->can_send() && (!best || better(slot, *best))) best = &slot;
  }
  return best;
}

Carried PathSet::carried() const {
  Carried all{.landed = landed_};
  for (const PathSlot& slot : slots_) {
    if (slot.path->state() == Path::State::alive) ++all.part;
    if (slot.path->connected()) all.open += slot.path->writes().open_bytes();
  }
  all.part /= static_cast<double>(slots_.size());
  return all;
}

}  // namespace ringwood::verbs
