// Which ranks use which ports of their hosts, by the addresses that they offer. Pure.
#pragma once

#include <string>
#include <vector>

namespace ringwood {

// By rail and host: the first rank that offers this address. There are several rails where on every
// host the i-th of its ranks offers the (i % rails)-th of the host's addresses, as many on each;
// else one, with the first rank of each host. `hosts`, `addresses`: by rank.
std::vector<std::vector<int>> rail_leaders(const std::vector<int>& hosts,
                                           const std::vector<std::string>& addresses);

}  // namespace ringwood
