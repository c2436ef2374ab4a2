// A link that carries nothing and reports the traffic that a test sets.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "transports/link.h"

namespace ringwood::testing {

class CountingLink final : public Link {
 public:
  // `traffic` outlives the link.
  explicit CountingLink(const LinkTraffic& traffic) : traffic_(traffic) {}
  Status post_send(const void*, size_t) override { return {}; }
  Status post_recv(void*, size_t) override { return {}; }
  Status post_incoming(size_t) override { return {}; }
  std::span<const std::byte> incoming() override { return {}; }
  void consume(size_t) override {}
  Status poll(Completions&) override { return {}; }
  void abort() noexcept override {}
  std::optional<LinkTraffic> traffic() const override { return traffic_; }

 private:
  const LinkTraffic& traffic_;
};

}  // namespace ringwood::testing
