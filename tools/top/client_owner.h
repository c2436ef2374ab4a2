// Who is at the other end of a connection over this host's loopback.
#pragma once

#include <optional>

#include "transports/base/asio.h"

namespace ringwood::tools {

// The user, as the kernel's tables of sockets have it; none: it is not of this host, or gone.
std::optional<unsigned> owner_of_client(const asio::ip::tcp::socket& socket);

}  // namespace ringwood::tools
