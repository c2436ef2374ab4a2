#include "transports/cuda/copies.h"

#include <thread>
#include <utility>

#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

bool reached(uint32_t now, uint32_t wanted) { return static_cast<int32_t>(now - wanted) >= 0; }

CUdeviceptr address(const void* data) { return reinterpret_cast<CUdeviceptr>(data); }

}  // namespace

Copies::Copies(const Device& device, Arena& arena, PinnedBlocks& pinned, Gates& gates,
               const Doorbell& doorbell, Ticket begun)
    : device_(device),
      gates_(gates),
      doorbell_(doorbell),
      words_(device, arena, pinned, 2),
      out_(device, words_.at(0), begun),
      in_(device, words_.at(1), begun),
      behind_out_(device) {}

bool Copies::idle_by(Deadline deadline) const noexcept {
  const auto idle = [this] {
    try {
      return out_.stream.idle() && in_.stream.idle();
    } catch (const Error&) {
      return false;
    }
  };
  while (!idle()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Status Copies::check(CUresult code, const char* call) const {
  return cuda::check(device_.driver(), code, call, device_.ordinal());
}

void Copies::give_back_ended() {
  size_t done = 0;
  while (done < ending_.size() && in_done(ending_[done].second))
    gates_.give_back(ending_[done++].first);
  ending_.erase(ending_.begin(), ending_.begin() + static_cast<long>(done));
}

Result<Copies::Ticket> Copies::counted(Direction& direction, CUresult code, const char* call) {
  if (Status s = check(code, call); !s) return std::move(s.error());
  if (Status s =
          check(device_.driver().stream.write_value(direction.stream.get(), direction.done.device,
                                                    direction.begun + 1, kWriteInOrder),
                "cuStreamWriteValue32");
      !s)
    return std::move(s.error());
  return ++direction.begun;
}

Result<Copies::Ticket> Copies::copy_out(std::byte* to, const void* from, size_t bytes) {
  const CurrentContext current(device_, std::nothrow);
  const CUresult code =
      device_.driver().memory.copy_to_host(to, address(from), bytes, out_.stream.get());
  return counted(out_, code, "cuMemcpyDtoHAsync");
}

Result<Copies::Ticket> Copies::copy_in(void* to, const std::byte* from, size_t bytes) {
  const CurrentContext current(device_, std::nothrow);
  const CUresult code =
      device_.driver().memory.copy_to_device(address(to), from, bytes, in_.stream.get());
  return counted(in_, code, "cuMemcpyHtoDAsync");
}

Result<Copies::Ticket> Copies::copy_within(const DeviceMove& move) {
  const CurrentContext current(device_, std::nothrow);
  const CUresult code = device_.driver().memory.copy_within_device(
      address(move.to), address(move.from), move.bytes, out_.stream.get());
  return counted(out_, code, "cuMemcpyDtoDAsync");
}

bool Copies::out_done(Ticket ticket) const noexcept { return reached(out_.done.read(), ticket); }
bool Copies::in_done(Ticket ticket) const noexcept { return reached(in_.done.read(), ticket); }

Status Copies::write_end(Operation operation) {
  const Gates::End end = gates_.end_of(operation);
  return check(
      device_.driver().stream.write_value(in_.stream.get(), end.word, end.value, kWriteInOrder),
      "cuStreamWriteValue32");
}

Status Copies::end(Operation operation) {
  give_back_ended();
  ending_.reserve(ending_.size() + 1);
  const CurrentContext current(device_, std::nothrow);
  if (Status s = write_end(operation); !s) {
    gates_.open(operation);  // the stream goes on all the same; the caller has the error
    return s;
  }
  auto ticket = counted(in_, CUDA_SUCCESS, "");
  // Without one it ends, but nobody will see when: the gate is not used again.
  if (!ticket) return std::move(ticket.error());
  if (in_.rings + 1 == *ticket) in_.rings = *ticket;  // nobody waits for the end
  ending_.emplace_back(operation, *ticket);
  return {};
}

Status Copies::wait_for_copies_out() const {
  const Driver& driver = device_.driver();
  if (Status s = check(driver.event.record(behind_out_.get(), out_.stream.get()), "cuEventRecord");
      !s)
    return s;
  return check(driver.stream.wait_event(in_.stream.get(), behind_out_.get(), 0),
               "cuStreamWaitEvent");
}

// By the streams, so that no copy is behind the end; by the host where nothing was begun, or the
// device is of no use.
void Copies::abandon(Operation operation) noexcept try {
  if (!has_come(operation)) return gates_.open(operation);
  ending_.reserve(ending_.size() + 1);
  const CurrentContext current(device_, std::nothrow);
  if (!current || !wait_for_copies_out() || !write_end(operation)) return gates_.open(operation);
  auto ticket = counted(in_, CUDA_SUCCESS, "");
  if (ticket) ending_.emplace_back(operation, *ticket);
} catch (...) {
  gates_.open(operation);
}

// Behind the last copy of each direction, once.
Status Copies::ring_when_done() {
  const CurrentContext current(device_, std::nothrow);
  for (Direction* direction : {&out_, &in_}) {
    if (std::exchange(direction->rings, direction->begun) == direction->begun) continue;
    if (Status s = doorbell_.ring_behind(device_, direction->stream.get()); !s) return s;
  }
  return {};
}

Status Copies::health() const noexcept {
  const CurrentContext current(device_, std::nothrow);
  if (!current) return current.status();
  const BesideCaptures beside(device_);
  const CUresult code = device_.driver().stream.query(out_.stream.get());
  return code == CUDA_ERROR_NOT_READY ? Status() : check(code, "cuStreamQuery");
}

}  // namespace ringwood::cuda
