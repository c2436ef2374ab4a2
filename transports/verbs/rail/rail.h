// One port of one RDMA device with what all links over it share: its events, the memory that it may
// access, and the channel on which its completion queues report.
//
// Thread safety: arm() and events() from any thread; all else from one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "transports/verbs/rail/completion_channel.h"
#include "transports/verbs/rail/device_events.h"
#include "transports/verbs/rail/device_memory.h"
#include "transports/verbs/rail/port.h"

namespace ringwood {
class WaitSet;
}

namespace ringwood::verbs {

class Rail final {
 public:
  // Takes over the context.
  Rail(const Library& library, ibv_context* context, int port) noexcept
      : port_(library, context, port), events_(port_), memory_(port_), channel_(port_) {}
  ~Rail();
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  // Chooses the GID and makes what the links share. False with `why`.
  bool open(const VerbsOptions& options, std::string& why);
  // Asks the port whether it can be used now, and chooses the GID again. False with `why`; after an
  // event that ends a device, always false.
  bool revive(const VerbsOptions& options, std::string& why);
  // From now on its descriptors ring the wait set.
  void watch(WaitSet& wait_set);
  // To be called before a sleep: reads the events; the next completion then rings the wait set.
  void arm() noexcept;

  const Port& port() const { return port_; }
  const RailAddress& address() const { return port_.address(); }
  const DeviceEvents& events() const { return events_; }
  DeviceMemory& memory() { return memory_; }
  const DeviceMemory& memory() const { return memory_; }
  CompletionChannel& channel() { return channel_; }

 private:
  // Destroyed in reverse order: everything else is made from the port.
  Port port_;
  DeviceEvents events_;
  DeviceMemory memory_;
  CompletionChannel channel_;
  WaitSet* wait_set_ = nullptr;
};

}  // namespace ringwood::verbs
