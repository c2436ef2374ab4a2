#include "collectives/runtime/in_flight.h"

#include <utility>

namespace ringwood {

InFlight::InFlight(Mesh& mesh, const Options& options, Role& role, WorkQueue& queue,
                   RunningStatus& status, Recorder& recorder)
    : mesh_(mesh),
      role_(role),
      queue_(queue),
      collectives_(mesh, options, status, recorder),
      messages_(mesh) {}

void InFlight::take() {
  std::vector<std::shared_ptr<MessageState>> messages;
  {
    const EngineLock held = role_.lock();
    queue_.take(held, messages);
    queue_.take(held, taken_);
  }
  for (auto& message : messages) messages_.add(std::move(message));
  collectives_.add(taken_);
  taken_.clear();
}

void InFlight::drop(Operations& dropped) {
  if (!std::exchange(links_aborted_, true))
    for (Peer& peer : mesh_.peers)
      for (auto& link : peer.link)
        if (link) link->abort();
  collectives_.drop(dropped);
  messages_.drop(dropped);
}

}  // namespace ringwood
