// A link that carries nothing: what a test's own link overrides says what is asked of it.
#pragma once

#include <cstddef>
#include <span>

#include "transports/link.h"

namespace ringwood::testing {

class SilentLink : public Link {
 public:
  Status post_send(const void*, size_t) override { return {}; }
  Status post_recv(void*, size_t) override { return {}; }
  Status post_incoming(size_t) override { return {}; }
  std::span<const std::byte> incoming() override { return {}; }
  void consume(size_t) override {}
  Status poll(Completions&) override { return {}; }
  void abort() noexcept override {}
};

}  // namespace ringwood::testing
