// Optional capabilities of an RDMA device, found by asking.
#pragma once

#include <string>

#include "transports/verbs/library/library.h"

namespace ringwood::verbs {

// In words, for the log; nothing uses them yet. On-demand paging: one registration of all memory,
// whose pages the device asks for when it needs them. dmabuf: memory of another device can be
// registered (GPUDirect).
std::string capabilities(const Library& library, ibv_context* context, ibv_pd* domain);

}  // namespace ringwood::verbs
