#include "collectives/recorder/group_trace.h"

#include <cctype>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "collectives/recorder/trace_dump.h"
#include "collectives/recorder/traces_at_sigterm.h"
#include "transports/base/log.h"
#include "transports/base/result.h"
#include "transports/base/thread.h"

namespace ringwood {
namespace {

constexpr size_t kMaxName = 64;
// The driver ends the operations in flight with the error that has the file written. Where it does
// not within this time, they are left out.
constexpr Duration kEndOfOperations = std::chrono::milliseconds(200);
// A file system may not answer for ever.
constexpr Duration kPatience = std::chrono::seconds(5);

// As a part of a file's name.
std::string file_name_of(const std::string& group) {
  std::string name;
  for (const char c : group.substr(0, kMaxName))
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_';
  if (name.empty() || name[0] == '.') name.insert(0, "group");
  return name;
}

// How many groups of this process have had that name, this one included. Ranks make their groups in
// the same order, so the numbers agree.
int count_name(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, int> known;
  const std::lock_guard lock(mutex);
  return ++known[name];
}

}  // namespace

void ClockHistory::note(const ClockSample& sample) {
  const std::lock_guard lock(mutex_);
  if (!samples_.empty() && sample.at_ns - since_ns_ < kWhileNs) {
    if (sample.uncertainty_ns < samples_.back().uncertainty_ns) samples_.back() = sample;
    return;
  }
  since_ns_ = sample.at_ns;
  samples_.push_back(sample);
  if (samples_.size() > kMaxSamples) samples_.erase(samples_.begin());
}

std::vector<ClockSample> ClockHistory::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

void GroupTrace::begin(RecordedGroup group, std::shared_ptr<const CallCounter> calls,
                       std::string machine) {
  std::unique_lock lock(mutex_);
  machine_ = std::move(machine);
  if (!directory_.empty()) {
    const std::string name = file_name_of(group.name);
    const int nth = count_name(fmt::format("{}-rank{}", name, group.rank));
    file_ = fmt::format("{}/{}{}-rank{}.json", directory_, name,
                        nth == 1 ? "" : fmt::format("-{}", nth), group.rank);
  }
  // One clock: it is that of the kernel.
  if (group.hosts[static_cast<size_t>(group.rank)] == group.hosts[0])
    clock_.note({clock_ns(), 0, 0});
  recorder_ = std::make_shared<Recorder>(std::move(group), std::move(calls));
  enter_recorder(recorder_);
  const auto early = early_error_;
  lock.unlock();
  if (!directory_.empty()) write_at_sigterm(weak_from_this());
  if (early) write_soon(*early);
}

void GroupTrace::write_soon(const std::string& error) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (!recorder_ && !early_error_) early_error_ = error;
    if (file_.empty() || state_ != State::unwritten) return;
    state_ = State::writing;
  }
  start_thread("rw-trace", [self = shared_from_this(), error] { self->run(error); }).detach();
} catch (...) {
  end("RINGWOOD_TRACE_DIR: " + caught_error().message());
}

void GroupTrace::write(const std::string& error) noexcept {
  write_soon(error);
  if (!wait(Deadline::after(kPatience)))
    log(LogLevel::warn, "trace",
        fmt::format("RINGWOOD_TRACE_DIR: {} is not written after {:.0f} s; its file system may "
                    "hang",
                    file_, seconds_in(kPatience)));
}

bool GroupTrace::wait(Deadline deadline) noexcept {
  std::unique_lock lock(mutex_);
  return written_.wait_for(lock, deadline.left(),
                           [this] { return state_ != State::writing && printing_ == 0; });
}

void GroupTrace::print_soon(const std::string& error, const TraceDone& done) {
  {
    const std::lock_guard lock(mutex_);
    if (!recorder_) return done(Error(ErrorCode::system, "its group is not complete yet"));
    ++printing_;
  }
  const auto ended = [](GroupTrace& trace) {
    const std::lock_guard lock(trace.mutex_);
    --trace.printing_;
    trace.written_.notify_all();
  };
  try {
    start_thread("rw-trace", [self = shared_from_this(), error, done, ended] {
      done(self->print_now(error));
      ended(*self);
    }).detach();
  } catch (...) {
    ended(*this);
    throw;
  }
}

Result<std::string> GroupTrace::print_now(const std::string& error) noexcept try {
  return print_dump(*recorder_, clock_.samples(), machine_, error);
} catch (...) {
  return caught_error();
}

void GroupTrace::run(const std::string& error) noexcept try {
  const Deadline patience = Deadline::after(kEndOfOperations);
  while (!recorder_->running().empty() && !patience.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  write_whole(file_, print_dump(*recorder_, clock_.samples(), machine_, error));
  end("");
} catch (...) {
  end("RINGWOOD_TRACE_DIR: " + caught_error().message());
}

void GroupTrace::end(const std::string& failure) noexcept {
  if (!failure.empty()) log(LogLevel::warn, "trace", failure);
  {
    const std::lock_guard lock(mutex_);
    state_ = State::written;
  }
  written_.notify_all();
}

}  // namespace ringwood
