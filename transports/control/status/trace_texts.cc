#include "transports/control/status/trace_texts.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace ringwood {

struct TraceTexts::Slot {
  std::mutex mutex;
  std::optional<Result<std::string>> made;
};

void TraceTexts::begin(uint64_t text) {
  if (find(text)) return;
  if (known_.size() == kMaxKnown) known_.erase(std::ranges::min_element(known_, {}, &Known::asked));
  known_.push_back({text, latest_or_new(), Clock::now()});
  forget_old();
}

std::shared_ptr<TraceTexts::Slot> TraceTexts::latest_or_new() {
  const auto now = Clock::now();
  if (auto latest = latest_.lock()) {
    const std::lock_guard lock(latest->mutex);
    if (!latest->made || now - begun_ < kPeriod) return latest;
  }
  auto fresh = std::make_shared<Slot>();
  latest_ = fresh;
  begun_ = now;
  const TraceDone done = [fresh](Result<std::string> made) {
    if (made && made->size() > kMaxTraceText)
      made = Error(ErrorCode::internal, "the text of its records is too long to be sent");
    const std::lock_guard lock(fresh->mutex);
    if (!fresh->made) fresh->made = std::move(made);
  };
  try {
    make_(done);
  } catch (...) {
    done(caught_error());
  }
  return fresh;
}

TracePiece TraceTexts::piece(const TraceQuery& query) {
  Known* const known = find(query.text);
  if (!known) return piece_of(query, TraceState::unknown);
  known->asked = Clock::now();
  const std::lock_guard lock(known->slot->mutex);
  if (!known->slot->made) return piece_of(query, TraceState::making);
  Result<std::string>& made = *known->slot->made;
  TracePiece piece = piece_of(query, made ? TraceState::here : TraceState::failed);
  if (!made) {
    piece.bytes = clip(made.error().cause, kMaxTraceWords);
    return piece;
  }
  piece.total = static_cast<uint32_t>(made->size());
  if (query.offset < made->size()) piece.bytes = made->substr(query.offset, kMaxTracePiece);
  return piece;
}

TraceTexts::Known* TraceTexts::find(uint64_t text) {
  const auto found = std::ranges::find(known_, text, &Known::text);
  return found == known_.end() ? nullptr : &*found;
}

void TraceTexts::forget_old() {
  const auto now = Clock::now();
  std::erase_if(known_, [&](const Known& one) { return now - one.asked >= kKeep; });
  if (known_.empty() || std::exchange(timed_, true)) return;
  timer_.expires_after(kKeep / 4);
  timer_.async_wait([this](asio::error_code error) {
    timed_ = false;
    if (!error) forget_old();
  });
}

}  // namespace ringwood
