#include "transports/link.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"
#include "transports/verbs/verbs.h"

namespace ringwood {
namespace {

const TransportRow kTransports[] = {
    {"loopback", "ranks that are threads of one process", [] { return make_loopback({}); }},
    {"shm", "shared memory between the processes of one host", make_shm},
    {"verbs", "InfiniBand and RoCE, between hosts", make_verbs},
    {"tcp", "sockets, between hosts and as the last resort", make_tcp},
};

}  // namespace

std::span<const TransportRow> transport_table() { return kTransports; }

}  // namespace ringwood
