// A link that carries nothing and reports the traffic that a test sets.
#pragma once

#include <optional>

#include "tests/tuner/silent_link.h"

namespace ringwood::testing {

class CountingLink final : public SilentLink {
 public:
  // `traffic` outlives the link.
  explicit CountingLink(const LinkTraffic& traffic) : traffic_(traffic) {}
  std::optional<LinkTraffic> traffic() const override { return traffic_; }

 private:
  const LinkTraffic& traffic_;
};

}  // namespace ringwood::testing
