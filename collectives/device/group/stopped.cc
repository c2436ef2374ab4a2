#include "collectives/device/group/stopped.h"

#include "collectives/device/group/pointers.h"
#include "transports/base/thread.h"

namespace ringwood::device {
namespace {

constexpr size_t kReports = 64;  // bytes before them
constexpr auto kPeriod = std::chrono::milliseconds(2);

uint32_t load(const uint32_t& word) {
  return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
}

// Of a report that is complete: others may still try to be the first.
Report copy_of(const Report& report) {
  Report copy;
  copy.code = load(report.code);
  copy.segment = report.segment;
  copy.peer = report.peer;
  copy.number = report.number;
  copy.sequence = report.sequence;
  copy.expected = report.expected;
  copy.seen = report.seen;
  return copy;
}

}  // namespace

Stopped::Stopped(const cuda::Device& device, Communicator& group, int segments, Words words)
    : group_(group),
      segments_(segments),
      words_(std::move(words)),
      memory_(device, kReports + static_cast<size_t>(segments) * sizeof(Report)) {
  thread_ = start_thread("rw-kernels", [this] { watch(); });
}

Stopped::~Stopped() {
  over_ = true;
  thread_.join();
}

const uint32_t* Stopped::abort_word() const {
  return on_device<const uint32_t>(memory_.on_device());
}
Report* Stopped::reports() const { return on_device<Report>(memory_.on_device() + kReports); }
Report* Stopped::host_report(int segment) const {
  return reinterpret_cast<Report*>(memory_.data() + kReports) + segment;
}

void Stopped::end_kernels() {
  std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(memory_.data()))
      .store(1, std::memory_order_release);
}

Status Stopped::status() {
  const bool ended = look();
  const std::lock_guard lock(mutex_);
  if (!ended) return {};
  return error_ ? Status(*error_) : group_.health();
}

void Stopped::watch() {
  while (!over_) {
    if (look()) return;
    std::this_thread::sleep_for(kPeriod);
  }
}

bool Stopped::look() {
  const std::lock_guard lock(mutex_);
  if (error_) return true;
  if (!group_.health()) {
    end_kernels();
    return true;
  }
  for (int segment = 0; segment < segments_; ++segment) {
    const Report& report = *host_report(segment);
    if (load(report.complete) == 0) continue;
    error_ = std::make_unique<Error>(words_(copy_of(report)));
    group_.abort(error_->cause);
    end_kernels();
    return true;
  }
  return false;
}

}  // namespace ringwood::device
