#include "tools/command/stop_request.h"

#include <atomic>
#include <cstddef>
#include <iterator>

namespace ringwood::tools {
namespace {

std::atomic<bool> noted = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a handler may write nothing else

void note(int) { noted.store(true, std::memory_order_relaxed); }

}  // namespace

StopRequest::StopRequest() {
  noted.store(false);
  struct sigaction notes = {};
  notes.sa_handler = note;
  notes.sa_flags = SA_RESTART;
  sigemptyset(&notes.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &notes, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

bool StopRequest::asked() const { return noted.load(std::memory_order_relaxed); }

}  // namespace ringwood::tools
