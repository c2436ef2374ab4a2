// The memory of this process that an RDMA device may access: the protection domain of a rail, the
// rings, and the arena's buffers for zero-copy sends.
//
// Not thread safe, except registrations().
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "transports/verbs/rail/port.h"
#include "transports/verbs/rail/registrations.h"

namespace ringwood::verbs {

class DeviceMemory final {
 public:
  // The port outlives it.
  explicit DeviceMemory(const Port& port) : port_(port) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Makes the domain. False with `why`.
  bool open(std::string& why);
  // Makes the rings readable and writable for the device and its peers. False with `why`.
  bool register_rings(std::shared_ptr<std::byte> data, size_t bytes, std::string& why);
  // Makes the arena's memory readable for the device, at most `most_bytes` at a time.
  void register_arena(size_t most_bytes);

  ibv_pd* domain() const { return domain_; }
  // Null before register_rings().
  const ibv_mr* rings() const { return rings_; }
  Registrations* registrations() const { return registrations_.get(); }  // null: no zero-copy

 private:
  const Port& port_;
  ibv_pd* domain_ = nullptr;
  std::shared_ptr<std::byte> data_;  // of the rings
  ibv_mr* rings_ = nullptr;
  std::unique_ptr<Registrations> registrations_;
};

}  // namespace ringwood::verbs
