// Which host this is. Thread safe.
#pragma once

#include <string>

namespace ringwood {

// What identifies a host to its ranks: boot id and network namespace. Two ranks with different
// tokens are never tried over shared memory; equal tokens are only a reason to try.
std::string host_token();
// As the kernel knows it; "unknown-host" if it does not say. For messages to people.
std::string host_name();

}  // namespace ringwood
