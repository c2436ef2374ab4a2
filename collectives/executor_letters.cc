// Opening by letter: among ranks that have mailboxes to all others, every operation begins with a
// letter from each rank to each other, with its opening in it. Where the plan is of one round, its
// data is in the letters, too; the steps then run in their order, reading the letters where they
// lie, without queues, and a pass costs little more than looking.
#include <cstring>

#include <fmt/format.h>

#include "collectives/executor.h"

namespace ringwood {
namespace {

// Looks in a row before the caller is asked again. Where ranks have cores of their own, an answer
// takes about as long; otherwise whoever has it may be waiting for this very core.
constexpr int kLooks = 100, kLooksOnSharedCores = 10;

}  // namespace

// All ranks come to the same answer: they all share one memory, or each lacks somebody.
void Executor::find_mailboxes() {
  for (int peer = 0; peer < mesh_.size; ++peer) {
    Link* const link =
        peer == mesh_.rank ? nullptr : mesh_.peers[peer].link[kCollectiveChannel].get();
    Mailbox* const box = link ? link->mailbox() : nullptr;
    if (peer != mesh_.rank && !box) return boxes_.clear();
    boxes_.push_back(box);
  }
  looks_ = mesh_.ranks_on_this_host <= mesh_.cores_on_this_host ? kLooks : kLooksOnSharedCores;
}

// What goes to, or comes from, a peer in its letter; null for nothing.
const BoundStep* Executor::enclosed(const std::vector<int32_t>& steps, int peer) const {
  return steps.empty() || steps[peer] < 0 ? nullptr : &request_.plan->steps[steps[peer]];
}

void Executor::write_letters() {
  static_assert(sizeof(Fingerprint) == kHeadBytes);
  const Plan& plan = *request_.plan;
  heard_.assign(boxes_.size(), 0);
  unheard_ = boxes_.size() - 1;
  late_ = held_ && plan.protocol != Protocol::queued;
  news_ = false;
  const bool pairs = !request_.send_counts.empty();
  pairs_differ_ = pairs && boxes_.size() > 2 && !request_.fingerprint.even;
  for (int peer = 0; peer < mesh_.size; ++peer) {
    if (!boxes_[peer]) continue;
    const BoundStep* step = held_ ? nullptr : enclosed(plan.letters_out, peer);
    if (pairs) {
      const Fingerprint said = said_to(peer);
      boxes_[peer]->write(&said, nullptr, 0);
    } else {
      boxes_[peer]->write(&request_.fingerprint, step ? at(step->src) : nullptr,
                          step ? step->bytes : 0);
    }
  }
}

// To every rank, from one whose own pairs agree: all letters look the same.
void Executor::write_news() {
  put_letters_away();
  news_ = true;
  request_.fingerprint.even = 0;
  heard_.assign(boxes_.size(), 0);
  unheard_ = boxes_.size() - 1;
  for (Mailbox* const box : boxes_)
    if (box) box->write(&request_.fingerprint, nullptr, 0);
}

void Executor::write_late() {
  late_ = false;
  for (int peer = 0; peer < mesh_.size; ++peer)
    if (const BoundStep* step = enclosed(request_.plan->letters_out, peer))
      boxes_[peer]->write_data(at(step->src), step->bytes);
}

Status Executor::look_for_letters() {
  const Plan& plan = *request_.plan;
  for (int peer = 0; peer < mesh_.size; ++peer) {
    if (!boxes_[peer] || heard_[peer]) continue;
    const BoundStep* step = enclosed(plan.letters_in, peer);
    const std::byte* const head = boxes_[peer]->head(step ? step->bytes : 0);
    if (!head) continue;
    heard_[peer] = 1;
    --unheard_;
    const bool pairs = !request_.send_counts.empty() && !news_;
    if (!pairs && std::memcmp(head, &request_.fingerprint, sizeof(Fingerprint)) == 0) [[likely]]
      continue;
    Fingerprint theirs;
    std::memcpy(static_cast<void*>(&theirs), head, sizeof theirs);
    if (Status s = agrees(theirs, peer); !s) return s;
    pairs_differ_ = pairs_differ_ || (pairs && boxes_.size() > 2 && !theirs.even);
  }
  return {};
}

// One message out of its letter. False: it is not here yet.
bool Executor::take_letter(const BoundStep& step) {
  alignas(64) std::byte room[kStampedBytes];
  const std::span<const std::byte> data = boxes_[step.peer]->data(step.bytes, room);
  if (data.empty()) return false;
  if (step.kind == StepKind::recv)
    std::memcpy(at(step.dst), data.data(), step.bytes);
  else
    reduce_piece(step, 0, data);
  return true;
}

// A peer that had closed its end before the last look in vain will not write any more.
Status Executor::gone(int peer) const {
  Error error(ErrorCode::peer_lost, "the peer closed its end of the link");
  error.peer = peer;
  error.transport = mesh_.peers[peer].transport;
  return error;
}

Status Executor::hear_letters(bool& progressed) {
  for (int look = 0; look < looks_ && unheard_ > 0; ++look)
    if (Status s = look_for_letters(); !s) return s;
  for (int peer = 0; unheard_ > 0 && peer < mesh_.size; ++peer) {
    if (!boxes_[peer] || heard_[peer] || !boxes_[peer]->closed()) continue;
    if (!boxes_[peer]->head(0)) return gone(peer);
  }
  if (unheard_ > 0) return {};
  progressed = true;
  if (pairs_differ_ && !news_)
    write_news();
  else
    agreed_ = true;
  return {};
}

void Executor::put_letters_away() {
  for (int peer = 0; peer < mesh_.size; ++peer) {
    if (!boxes_[peer]) continue;
    const BoundStep* step = enclosed(request_.plan->letters_out, peer);
    boxes_[peer]->done(step ? step->bytes : 0);
  }
}

Status Executor::step_letters(bool& progressed) {
  const Plan& plan = *request_.plan;
  if (!agreed_)
    if (Status s = hear_letters(progressed); !s || !agreed_) return s;
  if (held_) return {};
  if (late_) write_late();
  for (; cursor_ < plan.steps.size(); ++cursor_) {
    const BoundStep& step = plan.steps[cursor_];
    if (step.bytes == 0 || step.kind == StepKind::send) continue;
    if (step.peer < 0) {
      run_local(step);
      continue;
    }
    bool taken = false;
    for (int look = 0; look < looks_ && !taken; ++look) taken = take_letter(step);
    progressed = progressed || taken;
    if (taken) continue;
    if (!boxes_[step.peer]->closed()) return {};
    if (!take_letter(step)) return gone(step.peer);
  }
  put_letters_away();
  request_.plan = nullptr;
  progressed = true;
  return {};
}

}  // namespace ringwood
