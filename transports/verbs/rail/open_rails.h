// The RDMA devices of this machine that may be used.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/verbs/rail/rail.h"

namespace ringwood::verbs {

// The active ports that the options select and that can be opened, in the order of the devices. If
// there are none, `why` says why and what to change; `worth_telling` is false if there is no device
// at all.
std::vector<std::shared_ptr<Rail>> open_rails(const VerbsOptions& options, std::string& why,
                                              bool& worth_telling);

}  // namespace ringwood::verbs
