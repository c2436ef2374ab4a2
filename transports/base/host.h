// The identity of this host. Thread safe.
#pragma once

#include <string>

namespace ringwood {

// Identifies a host to its ranks: boot id and network namespace. Two ranks with different tokens
// never try shared memory; equal tokens are only a reason to try. Machines made from one image of a
// running machine have equal ones, until told_apart() (bootstrap/net.h) compares their addresses.
std::string host_token();
// Identifies the cores on which this thread may run: equal on hosts that share them, as containers
// of one machine do.
std::string cores_token();
// Equal only where a user id names the same user: boot id, user and mount namespace. Containers
// have mount namespaces of their own. Empty: not known.
std::string users_token();
// As the kernel knows it; "unknown-host" if it does not say. For messages to people.
std::string host_name();

}  // namespace ringwood
