#include "transports/bootstrap/handshake.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"
#include "transports/transport.h"
#include "transports/verbs/verbs.h"

namespace ringwood {
namespace {

constexpr TransportRow kTransports[] = {
    {.name = "loopback",
     .description = "ranks that are threads of one process",
     .make = [] { return make_loopback({}); },
     .one_process = true},
    {.name = "shm",
     .description = "shared memory between the processes of one host",
     .make = make_shm,
     .shared_memory = true},
    {.name = "verbs", .description = "InfiniBand and RoCE, between hosts", .make = make_verbs},
    {.name = "tcp",
     .description = "sockets, between hosts and as the last resort",
     .make = make_tcp},
};

constexpr bool purposes_differ() {
  for (const TransportRow& a : kTransports)
    for (const TransportRow& b : kTransports)
      if (&a != &b && purpose_of(a.name) == purpose_of(b.name)) return false;
  return true;
}
static_assert(purposes_differ(), "two transports would take each other's connections");

}  // namespace

std::span<const TransportRow> transport_table() { return kTransports; }

}  // namespace ringwood
