#include "transports/control/oob_connections.h"

#include <fmt/core.h>

namespace ringwood {

void OobConnections::add(int rank, std::unique_ptr<ControlChannel> channel) {
  ends_[rank].channel = std::move(channel);
  ends_[rank].channel->start();
}

void OobConnections::send(int rank, MessageType type, std::string_view body) {
  ends_[rank].channel->send(type, body);
}

void OobConnections::send_to_present(MessageType type, std::string_view body) {
  for (End& end : ends_) {
    if (end.present()) end.channel->send(type, body);
  }
}

std::string OobConnections::name(int rank) const {
  const Introduction& who = ends_[rank].who;
  if (who.pid == 0) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({}, pid {})", rank, who.host, who.pid);
}

}  // namespace ringwood
