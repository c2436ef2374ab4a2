// One port of one device, opened: its GID, its protection domain, and where its events arrive.
//
// A context for each port, so that an event is never delivered to another port's reader. Events are
// read without blocking: completions in arm(), which the sleeper calls, and so are those of the
// device, which count its outages and returns. These and why_down() may be asked from any thread,
// the rest from one at a time.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/options.h"
#include "transports/verbs/library/library.h"
#include "transports/verbs/rail/offers.h"
#include "transports/verbs/rail/registrations.h"

namespace ringwood {
class WaitSet;
}

namespace ringwood::verbs {

class Rail final {
 public:
  Rail(const Library& library, ibv_context* context, int port) noexcept;
  ~Rail();
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  // Chooses the GID and makes what the links share; false with `why`.
  bool open(const Options& options, std::string& why);
  // Makes memory readable and writable for the device and its peers. False with `why`.
  bool register_memory(std::shared_ptr<std::byte> data, size_t bytes, std::string& why);
  // Makes the arena's memory readable for the device, up to so many bytes at a time.
  void lend_from_arena(size_t most_bytes);
  // Whether it can be used, now: the port is asked and the GID chosen anew. False with `why`, and
  // for good after an event that ends a device.
  bool revive(const Options& options, std::string& why);
  // Its descriptors ring the wait set from now on.
  void watch(WaitSet& wait_set);

  const RailOffer& offer() const { return offer_; }
  const Library& library() const { return library_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  ibv_mr* memory() const { return memory_; }
  Registrations* registrations() const { return registrations_.get(); }  // null: lends nothing
  int port() const { return port_; }
  int gid_index() const { return gid_index_; }

  ibv_cq* make_queue(int entries);  // null with errno
  void destroy_queue(ibv_cq* queue);

  void arm() noexcept;
  // How often it went down, and came up. Paths that were made before the last outage are void.
  unsigned outages() const { return outages_.load(std::memory_order_acquire); }
  unsigned returns() const { return returns_.load(std::memory_order_acquire); }
  std::string why_down() const;
  // The device, for good.
  bool dead() const { return dead_.load(std::memory_order_acquire); }

 private:
  bool ask_port(std::string& why);
  bool choose_gid(const Options& options, std::string& why);
  void read_device_events() noexcept;
  void drain_completion_events() noexcept;

  const Library& library_;
  ibv_context* const context_;
  const int port_;
  int process_ = 0;
  RailOffer offer_;
  int gid_index_ = 0;
  std::shared_ptr<std::byte> registered_;
  ibv_pd* domain_ = nullptr;
  ibv_mr* memory_ = nullptr;
  std::unique_ptr<Registrations> registrations_;
  ibv_comp_channel* channel_ = nullptr;
  WaitSet* wait_set_ = nullptr;
  std::atomic<unsigned> outages_{0}, returns_{0};
  std::atomic<bool> dead_{false};
  mutable std::mutex mutex_;
  std::string why_down_;         // mutex_
  std::vector<ibv_cq*> queues_;  // mutex_
};

// The active ports that the options select and that can be opened, in the order of the devices.
// None: `why` says why and what to change; `worth_telling` is false where there is no device at
// all.
std::vector<std::shared_ptr<Rail>> open_rails(const Options& options, std::string& why,
                                              bool& worth_telling);

}  // namespace ringwood::verbs
