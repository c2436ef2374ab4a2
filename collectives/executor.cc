#include "collectives/executor.h"

#include "collectives/buffers.h"

#include <sys/mman.h>

#include <cstring>

#include <fmt/format.h>

namespace ringwood {
namespace {

// Scratch comes straight from the kernel, in huge pages where it gives them: the first touch of a
// small page costs more than the reduction that will use it.
void* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    throw Error(ErrorCode::system, fmt::format("no memory for {} bytes of scratch: {}", bytes,
                                               system_message("mmap")));
  madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

void* scratch_pages(Arena* arena, size_t bytes) {
  try {
    if (arena) return arena->allocate(bytes);
  } catch (const Error&) {  // ordinary memory will do: what lies there is copied
  }
  return map_pages(bytes);
}

bool local(StepKind kind) { return kind == StepKind::reduce || kind == StepKind::copy; }
// A receive whose bytes go straight to their place; the others are shown.
bool stored(const BoundStep& step) {
  return step.kind == StepKind::recv && step.wire == WireFormat::exact;
}

}  // namespace

Executor::Executor(Mesh& mesh) : mesh_(mesh) {
  find_mailboxes();
  if (by_letter() && mesh_.size > 1) arena_ = Arena::of_process();
}

Executor::~Executor() {
  give_scratch_back();
  if (wide_) munmap(wide_, wide_bytes_);
}

void Executor::give_scratch_back() noexcept {
  if (!scratch_) return;
  if (arena_ && arena_->offset_of(scratch_, scratch_bytes_))
    arena_->release(scratch_);
  else
    munmap(scratch_, scratch_bytes_);
  scratch_ = nullptr;
  scratch_bytes_ = 0;
}

void Executor::grow(size_t scratch_bytes, size_t wide_bytes) {
  if (scratch_bytes > scratch_bytes_) {
    give_scratch_back();
    scratch_ = static_cast<std::byte*>(scratch_pages(arena_, scratch_bytes));
    scratch_bytes_ = scratch_bytes;
  }
  if (wide_bytes > wide_bytes_) {
    void* fresh = map_pages(wide_bytes);
    if (wide_) munmap(wide_, wide_bytes_);
    wide_ = static_cast<std::byte*>(fresh);
    wide_bytes_ = wide_bytes;
  }
}

void Executor::start(const Request& request) {
  const Plan& plan = *request.plan;
  grow(plan.scratch_bytes, plan.wide_bytes);
  request_ = request;
  held_ = request.hold_sends;
  agreed_ = plan.agreement.empty() && plan.protocol == Protocol::queued;
  exchanged_ = cursor_ = 0;
  folded_ = false;
  runs_.clear();
  if (by_letter()) {
    agreed_ = false;
    write_letters();
    if (plan.protocol != Protocol::queued) return;
  }
  for (const PeerQueue& queue : plan.peers) {
    Run run;
    run.queue = &queue;
    run.link = mesh_.peers[queue.peer].link[kCollectiveChannel].get();
    run.mine.fingerprint = said_to(queue.peer);
    run.base = mesh_.totals[queue.peer];
    runs_.push_back(run);
  }
  if (plan.protocol != Protocol::queued) return;
  pending_.assign(plan.graph.predecessors.begin(), plan.graph.predecessors.end());
  left_ = plan.steps.size();
  ready_.clear();
  unfused_.assign(plan.fusions.size(), 0);
  held_back_ = {};
  roundings_.clear();
  rounded_ = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (pending_[i] == 0) make_ready(static_cast<int32_t>(i));
}

void Executor::drop() { request_.plan = nullptr; }

std::byte* Executor::at(Place place) {
  std::byte* base =
      place.buffer == kScratch ? scratch_ : static_cast<std::byte*>(request_.buffers[place.buffer]);
  return base + place.offset;
}

Error Executor::at_step(Error error, int32_t step) const {
  if (error.step < 0) error.step = step;
  return error;
}

// ---- the agreement
// ------------------------------------------------------------------------------------------

Status Executor::agree(bool& progressed) {
  const auto& agreement = request_.plan->agreement;
  while (exchanged_ < agreement.size()) {
    size_t end = exchanged_;
    for (; end < agreement.size() && agreement[end].stage == agreement[exchanged_].stage; ++end)
      if (Status s = exchange(agreement[end], progressed); !s) return s;
    for (size_t i = exchanged_; i < end; ++i) {
      Run& from = runs_[agreement[i].from];
      if (from.heard <= agreement[i].nth_from)
        if (Status s = poll(from, progressed); !s) return s;
      if (from.heard <= agreement[i].nth_from) return {};
    }
    exchanged_ = end;
  }
  agreed_ = true;
  return {};
}

Status Executor::exchange(const Plan::Exchange& exchange, bool& progressed) {
  Run& to = runs_[exchange.to];
  Run& from = runs_[exchange.from];
  if (from.hearings_posted == exchange.nth_from) {
    Opening& theirs = from.theirs[from.hearings_posted++];
    if (Status s = from.link->post_recv(&theirs, sizeof theirs); !s) return s;
  }
  if (to.greetings_posted == exchange.nth_to) {
    ++to.greetings_posted;
    progressed = true;
    if (Status s = to.link->post_send(&to.mine, sizeof to.mine); !s) return s;
  }
  return {};
}

Status Executor::hear(Run& run) {
  return agrees(run.theirs[run.heard++].fingerprint, run.queue->peer);
}

Fingerprint Executor::said_to(int peer) const {
  Fingerprint f = request_.fingerprint;
  if (!request_.send_counts.empty())
    set_pair(f, request_.send_counts[peer], request_.recv_counts[peer]);
  return f;
}

Fingerprint Executor::expected_from(int peer, const Fingerprint& theirs) const {
  Fingerprint f = request_.fingerprint;
  if (request_.send_counts.empty()) return f;
  set_pair(f, request_.recv_counts[peer], request_.send_counts[peer]);
  // That of others is their own affair, unless the call says it.
  if (theirs.even != Fingerprint::kOneSize && f.even != Fingerprint::kOneSize) f.even = theirs.even;
  return f;
}

Status Executor::agrees(const Fingerprint& theirs, int peer) const {
  auto difference = compare(expected_from(peer, theirs), mesh_.rank, theirs, peer);
  if (!difference) return {};
  Error error(ErrorCode::mismatch, *difference);
  error.peer = peer;
  return error;
}

// ---- the run
// ------------------------------------------------------------------------------------------------

Status Executor::step(bool& progressed) {
  if (request_.plan->protocol != Protocol::queued)
    return by_letter() ? step_letters(progressed) : step_one_round(progressed);
  if (!agreed_)
    if (Status s = by_letter() ? hear_letters(progressed) : agree(progressed); !s) return s;
  if (agreed_ && !held_) run_ready(progressed);
  bool quiet = true;
  for (Run& run : runs_) {
    if (!held_)
      if (Status s = post_sends(run, progressed); !s) return s;
    if (agreed_ && !held_)
      if (Status s = post_receives(run, progressed); !s) return s;
    if (outstanding(run)) {
      if (Status s = poll(run, progressed); !s) return s;
      quiet = quiet && !outstanding(run);
    }
  }
  if (agreed_ && !held_) run_ready(progressed);
  if (agreed_ && !held_ && left_ == 0 && quiet) {
    for (Run& run : runs_)
      if (outstanding(run)) return {};
    if (by_letter()) put_letters_away();
    request_.plan = nullptr;
    progressed = true;
  }
  return {};
}

bool Executor::sending(const Run& run) const {
  return mesh_.totals[run.queue->peer].sent - run.base.sent <
         run.sends_posted + run.greetings_posted;
}

bool Executor::outstanding(const Run& run) const {
  return sending(run) || mesh_.totals[run.queue->peer].received - run.base.received <
                             run.receives_posted + run.hearings_posted;
}

Status Executor::post_sends(Run& run, bool& progressed) {
  const auto& sends = run.queue->sends;
  if (run.greetings_posted < greets(run)) return {};
  while (run.sends_posted < sends.size() && pending_[sends[run.sends_posted]] == 0) {
    const int32_t index = sends[run.sends_posted];
    const BoundStep& step = request_.plan->steps[index];
    if (step.wire != WireFormat::exact) {
      // One at a time: it leaves before the next is encoded.
      if (run.sends_done < static_cast<size_t>(step.staged_after)) return {};
      progressed = true;
      return post_encoded(run, index);
    }
    ++run.sends_posted;
    progressed = true;
    Status s = step.answer < 0
                   ? run.link->post_send(at(step.src), step.bytes)
                   : run.link->post_offer(
                         at(step.src), step.bytes,
                         run.base.received + (by_letter() ? 0 : run.queue->greeted) + step.answer);
    if (!s) return at_step(s.error(), index);
  }
  return {};
}

// Of a fusion's operands each would wait for the one before; being shown they write nothing, so all
// are posted with the first.
bool Executor::postable(int32_t receive) const {
  if (pending_[receive] == 0) return true;
  const int32_t fusion = request_.plan->fusion_of[receive];
  return fusion >= 0 && pending_[request_.plan->fusions[fusion].receives[0]] == 0;
}

Status Executor::post_receives(Run& run, bool& progressed) {
  const auto& receives = run.queue->receives;
  while (run.receives_posted < receives.size() && postable(receives[run.receives_posted])) {
    const int32_t index = receives[run.receives_posted++];
    const BoundStep& step = request_.plan->steps[index];
    progressed = true;
    Status s = stored(step) ? run.link->post_recv(at(step.dst), step.bytes)
                            : run.link->post_incoming(step.message_bytes);
    if (!s) return at_step(s.error(), index);
  }
  return {};
}

// An error counts only if something is still wanted of this peer: one that has finished and left is
// no fault.
Status Executor::poll(Run& run, bool& progressed) {
  Completions& totals = mesh_.totals[run.queue->peer];
  const auto& receives = run.queue->receives;
  for (bool again = true; again;) {
    const Completions before = totals;
    Status s = run.link->poll(totals);
    again = totals.sent != before.sent || totals.received != before.received;
    while (run.heard < run.hearings_posted &&
           totals.received - run.base.received > static_cast<uint64_t>(run.heard))
      if (Status different = hear(run); !different) return different;
    const size_t sent = totals.sent - run.base.sent, received = totals.received - run.base.received;
    while (run.sends_done + run.greetings_posted < sent)
      complete(run.queue->sends[run.sends_done++]);
    while (run.receives_done + run.hearings_posted < received)
      complete(receives[run.receives_done++]);
    again |= show(run);
    progressed |= again;
    if (s) continue;
    if (!outstanding(run)) return {};
    return run.receives_done < receives.size() ? at_step(s.error(), receives[run.receives_done])
                                               : std::move(s);
  }
  return {};
}

bool Executor::show(Run& run) {
  const auto& receives = run.queue->receives;
  bool moved = false;
  while (true) {
    while (run.shown < run.receives_posted && stored(request_.plan->steps[receives[run.shown]]))
      ++run.shown;
    if (run.shown >= run.receives_posted) return moved;
    const std::span<const std::byte> piece = run.link->incoming();
    if (piece.empty()) return moved;
    const BoundStep& step = request_.plan->steps[receives[run.shown]];
    const int32_t fusion = request_.plan->fusion_of[receives[run.shown]];
    if (fusion >= 0 && run.shown_offset == 0 && !unfused_[fusion]) {
      const Fused verdict = fuse(request_.plan->fusions[fusion]);
      if (verdict == Fused::waiting) return moved;
      moved = moved || verdict == Fused::done;
      if (verdict == Fused::done) continue;
      unfused_[fusion] = 1;
    }
    if (pending_[receives[run.shown]] > 0) return moved;  // posted early, for a fusion
    if (step.wire == WireFormat::exact)
      reduce_piece(step, run.shown_offset, piece);
    else
      decode_piece(run, step, piece);
    run.link->consume(piece.size());
    moved = true;
    run.shown_offset += piece.size();
    if (run.shown_offset == step.message_bytes) {
      ++run.shown;
      run.shown_offset = 0;
    }
  }
}

void Executor::reduce_piece(const BoundStep& step, size_t offset,
                            std::span<const std::byte> piece) {
  if (request_.plan->scaling.on) return add_scaled(step, offset, piece);
  const Shape& shape = request_.plan->shape;
  const size_t count = piece.size() / request_.plan->element;
  std::byte* dst = at(step.dst) + offset;
  if (!step.wide.on) return reduce(dst, piece.data(), count, shape.type, shape.op);
  auto* const wide =
      reinterpret_cast<float*>(wide_ + step.wide.offset) + offset / request_.plan->element;
  if (step.wide.first) widen(wide, dst, count, shape.type);
  reduce_wide(wide, piece.data(), count, shape.type, shape.op);
  if (step.wide.last) narrow(dst, wide, count, shape.type);
}

void Executor::run_local(const BoundStep& step) {
  if (step.bytes == 0) return;
  if (step.kind == StepKind::copy) {
    if (at(step.dst) != at(step.src)) move_bytes(at(step.dst), at(step.src), step.bytes);
  } else {
    reduce_piece(step, 0, {at(step.src), step.bytes});
  }
}

void Executor::run_ready(bool& progressed) {
  while (!ready_.empty()) {
    const int32_t index = ready_.back();
    ready_.pop_back();
    progressed = true;
    const BoundStep& step = request_.plan->steps[index];
    if (local(step.kind)) run_local(step);
    complete(index);
  }
  if (rounded_ < roundings_.size()) run_rounding(progressed);
}

void Executor::make_ready(int32_t index) {
  const BoundStep& step = request_.plan->steps[index];
  if (!local(step.kind) && step.bytes != 0) return;
  (step.wire != WireFormat::exact && step.bytes != 0 ? roundings_ : ready_).push_back(index);
}

void Executor::complete(int32_t index) {
  const Plan& plan = *request_.plan;
  --left_;
  for (int32_t k = plan.graph.offset[index]; k < plan.graph.offset[index + 1]; ++k) {
    const int32_t next = plan.graph.successor[k];
    if (--pending_[next] == 0) make_ready(next);
  }
}

}  // namespace ringwood
