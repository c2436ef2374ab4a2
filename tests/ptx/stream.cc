#include "tests/ptx/stream.h"

#include <stdexcept>

namespace ringwood::ptx {

Stream::Stream(Machine& machine, std::string name, int device, int threads)
    : machine_(machine),
      name_(std::move(name)),
      first_(machine.take_ids(static_cast<uint32_t>(threads) + 1, name_)),
      threads_(threads) {
  agent_.id = first_ + static_cast<uint32_t>(threads);
  agent_.place = {device, -1};
  agent_.next_tick();
}

void Stream::launch(const StreamLaunch& launch) {
  if (!idle() || launch.blocks * launch.threads > threads_)
    throw std::invalid_argument(name_ + ": a launch too many, or too large");
  for (int block = 0; block < launch.blocks; ++block)
    machine_.launch({launch.kernel, launch.parameters, block, launch.blocks, launch.threads,
                     launch.dynamic_shared, agent_.place.device,
                     first_ + static_cast<uint32_t>(block * launch.threads), agent_.clock});
  left_ = launch.blocks * launch.threads;
  agent_.next_tick();
}

bool Stream::ended(const Thread& thread) {
  if (thread.agent.id < first_ || thread.agent.id >= agent_.id) return false;
  agent_.clock.join(thread.agent.clock);
  return --left_ == 0;
}

void Stream::wait_for(Stream& other) {
  agent_.clock.join(other.agent_.clock);
  other.agent_.next_tick();
}

void Stream::touch(const void* base, size_t bytes, Access access) {
  machine_.touch(agent_, base, bytes, access, name_);
}

void run(Machine& machine, std::span<Stream> streams) {
  while (machine.running())
    if (const Thread* thread = machine.step())
      for (Stream& stream : streams) stream.ended(*thread);
}

}  // namespace ringwood::ptx
