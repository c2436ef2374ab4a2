// What a device can do that not every one can, found by asking.
#pragma once

#include <string>

#include "transports/verbs/library.h"

namespace ringwood::verbs {

struct Capabilities {
  // One registration of all memory, whose pages the device asks for when it needs them.
  bool on_demand = false;
  // Memory of another device can be registered (GPUDirect); nothing uses it yet.
  bool dmabuf = false;
  std::string text;  // for the log
};
Capabilities ask(const Library& library, ibv_context* context, ibv_pd* domain);

}  // namespace ringwood::verbs
