// The names of the status sockets of this host that are what they say. Anybody may make a name in
// /proc/net/unix, with another user and process in it; so the kernel is asked who listens there,
// once for each name, before it is used for anything.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "transports/control/status/status_socket.h"

namespace ringwood::tools {

class KnownNames final {
 public:
  // Of this user, for root of all. Never waits: one that cannot be asked now is left out.
  std::vector<StatusName> read();

 private:
  std::set<std::string> genuine_;
};

}  // namespace ringwood::tools
