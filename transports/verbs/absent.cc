// Replaces the transport in a build without the headers of libibverbs (meson option `verbs`).
#include <algorithm>

#include "transports/base/log.h"
#include "transports/verbs/rail/addresses.h"
#include "transports/verbs/verbs.h"

namespace ringwood {
namespace {

class Absent final : public Transport {
 public:
  LinkTable connect(const Group& group, const std::vector<bool>& wanted, int channels) override {
    log(LogLevel::info, "verbs",
        "not used: this build has no verbs; install libibverbs-dev and build again");
    // The other ranks wait for this rank's address.
    if (std::find(wanted.begin(), wanted.end(), true) != wanted.end())
      verbs::exchange_addresses(group, wanted, {"its build has no verbs", {}});
    return no_links(group, channels);
  }
};

}  // namespace

std::unique_ptr<Transport> make_verbs() { return std::make_unique<Absent>(); }

}  // namespace ringwood
