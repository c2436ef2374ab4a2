// The identity of this host. Thread safe.
#pragma once

#include <string>

namespace ringwood {

// Identifies a host to its ranks: boot id and network namespace. Two ranks with different tokens
// never try shared memory; equal tokens are only a reason to try.
std::string host_token();
// As the kernel knows it; "unknown-host" if it does not say. For messages to people.
std::string host_name();

}  // namespace ringwood
