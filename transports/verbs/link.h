// A link over queue pairs, as its user sees it: one or more paths over one or more rails, and a TCP
// connection (fallback_connection.h) for negotiation and as the path of last resort.
//
// Large messages (VerbsOptions::zero_copy_bytes) in the arena, or in remapped buffers, are sent
// zero-copy: the RDMA device reads them in place (data_path.h). Such a message is sent when every
// piece is acknowledged. abort() therefore stops the queue pairs if anything is exposed, before it
// returns: the user may write to that memory at once, and the peer must not get the new bytes as
// the message. A peer that has read everything and leaves says so over the fallback connection,
// because the acknowledgements of what it read may have been lost with its queue pairs.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "transports/link.h"
#include "transports/verbs/connection.h"

namespace ringwood::verbs {

class VerbsLink final : public Link {
 public:
  // `probes`: messages in each direction that belonged to set-up and do not count.
  VerbsLink(std::unique_ptr<Connection> connection, size_t probes);
  ~VerbsLink() override;

  Status post_send(const void* data, size_t bytes) override;
  Status post_recv(void* data, size_t bytes) override;
  Status post_incoming(size_t bytes) override;
  std::span<const std::byte> incoming() override;
  void consume(size_t bytes) override;
  Status poll(Completions& completions) override;
  void abort() noexcept override { connection_->abort(); }
  const char* fallback() const override { return connection_->data().fallback() ? "tcp" : nullptr; }
  std::vector<std::string> ports() const override;
  std::optional<LinkTraffic> traffic() const override { return connection_->traffic().traffic(); }

 private:
  bool post_zero_copy(const void* data, size_t bytes);

  const std::unique_ptr<Connection> connection_;
  LinkState& link_;
  Outgoing& out_;
  Incoming& in_;
  const size_t probes_;
  Arena* const arena_;  // memory for zero-copy sends; null: all messages are copied
};

}  // namespace ringwood::verbs
