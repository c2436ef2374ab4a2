#include "transports/verbs/link.h"

#include <algorithm>

#include "transports/memory/remap.h"

namespace ringwood::verbs {

VerbsLink::VerbsLink(std::unique_ptr<Connection> connection, size_t probes)
    : connection_(std::move(connection)),
      link_(connection_->link()),
      out_(connection_->data().outgoing()),
      in_(connection_->data().incoming()),
      probes_(probes),
      arena_(link_.options.registered_bytes > 0 ? Arena::of_process() : nullptr) {}

VerbsLink::~VerbsLink() {
  if (!link_.inherited() && !link_.over()) connection_->drain();
}

std::vector<std::string> VerbsLink::ports() const {
  std::vector<std::string> names;
  for (const LinkRail& rail : connection_->paths().rails())
    names.push_back(rail.rail->address().name);
  return names;
}

// Only poll() sends, so that messages that were posted together are written together.
Status VerbsLink::post_send(const void* data, size_t bytes) {
  if (link_.refuses(bytes)) return link_.why(bytes);
  connection_->traffic().posted();
  if (bytes < link_.options.zero_copy_bytes || !arena_ || !post_zero_copy(data, bytes))
    out_.post(data, bytes);
  return {};
}

// False: it is in no memory that a device can register.
bool VerbsLink::post_zero_copy(const void* data, size_t bytes) {
  if (arena_->offset_of(data, bytes)) {
    out_.post_zero_copy(data, bytes);
    return true;
  }
  RemappedMemory* const remapped = RemappedMemory::current();
  if (!remapped) return false;
  AbortGate::Access access(link_.gate);
  if (!access) return false;
  auto exposed = remapped->expose(data, bytes);
  if (!exposed) return false;
  out_.post_zero_copy(arena_->at(exposed->offset), bytes, std::move(exposed->hold));
  return true;
}

Status VerbsLink::post_recv(void* data, size_t bytes) {
  if (link_.refuses(bytes)) return link_.why(bytes);
  in_.post(static_cast<std::byte*>(data), bytes);
  return {};
}

Status VerbsLink::post_incoming(size_t bytes) {
  if (link_.refuses(bytes)) return link_.why(bytes);
  in_.post(nullptr, bytes);
  return {};
}

std::span<const std::byte> VerbsLink::incoming() {
  if (link_.over()) return {};
  return in_.in_place();
}

void VerbsLink::consume(size_t bytes) {
  bytes = std::min(bytes, incoming().size());
  if (bytes > 0) in_.consume(bytes);
}

Status VerbsLink::poll(Completions& completions) {
  Status status = connection_->move();
  completions = {out_.sent() - probes_, in_.received() - probes_};
  return status;
}

}  // namespace ringwood::verbs
