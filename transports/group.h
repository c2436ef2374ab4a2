// The input of a rank's transports and control connection: its group. `options`, `store` and
// `listener` exist until the links are made, `wait_set` as long as the links.
#pragma once

#include <string>
#include <vector>

#include "transports/base/clock.h"
#include "transports/bootstrap/identity.h"

namespace ringwood {

class Listener;
class Store;
class WaitSet;
struct Options;

struct Group {
  Identity identity;               // rank, size, key, session
  std::vector<std::string> hosts;  // of every rank, equal on one host: host_token()
  const Options* options = nullptr;
  Store* store = nullptr;  // private to this group and versioned; keys that are set must be removed
  WaitSet* wait_set = nullptr;            // where this rank sleeps
  Listener* listener = nullptr;           // this rank's one port
  std::vector<std::string> addresses;     // every rank's Listener: "10.0.0.1:4000,[fd00::1]:4000"
  Deadline deadline = Deadline::never();  // for set-up
  int rank() const { return identity.rank; }
  int size() const { return identity.size; }
};

}  // namespace ringwood
