// A port for a server that must be known before it exists.
#pragma once

#include "tests/support/processes.h"
#include "transports/bootstrap/store.h"

namespace ringwood::testing {

// Was free a moment ago.
inline int free_port() {
  auto probe = tcp_store("127.0.0.1", 0, true, patiently());
  return tcp_store_port(*probe);
}

}  // namespace ringwood::testing
