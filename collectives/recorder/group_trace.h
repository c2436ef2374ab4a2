// What a group keeps for `ringwood trace`: its recorder, how far rank 0's clock is ahead of this
// rank's, and, with RINGWOOD_TRACE_DIR, the file that all of it is written to (trace_dump.h) when
// the group ends or fails, once: DIR/GROUP-rankN.json, GROUP-2-rankN.json of the second group of
// that name in a process.
//
// A thread of its own writes it, which keeps this object: neither an error nor the end of a process
// waits for a file system that does not answer. Another one makes the same text for whoever asks
// while the group runs (transports/control/status/trace_texts.h).
//
// Thread safety: all methods by any thread, recorder() only after begin().
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/recorder/recorder.h"
#include "transports/control/clock_messages.h"
#include "transports/control/status/trace_messages.h"

namespace ringwood {

// The best sample of each while, the last ones of a bounded number.
class ClockHistory final {
 public:
  void note(const ClockSample& sample);
  std::vector<ClockSample> samples() const;

 private:
  static constexpr int64_t kWhileNs = 5'000'000'000;
  static constexpr size_t kMaxSamples = 256;

  mutable std::mutex mutex_;
  std::vector<ClockSample> samples_;
  int64_t since_ns_ = 0;  // the last sample's while began then
};

class GroupTrace final : public std::enable_shared_from_this<GroupTrace> {
 public:
  // `directory` empty: no file.
  explicit GroupTrace(std::string directory) : directory_(std::move(directory)) {}

  void note_clock(const ClockSample& sample) { clock_.note(sample); }
  // The group is complete. The recorder is entered in those of the process.
  void begin(RecordedGroup group, std::shared_ptr<const CallCounter> calls, std::string machine);
  Recorder& recorder() { return *recorder_; }
  // Begins to write the file, unless that was begun before. Returns at once. A failure is warned
  // about in the log.
  void write_soon(const std::string& error) noexcept;
  // Likewise, and waits until it is there, for a bounded time.
  void write(const std::string& error) noexcept;
  // Until it is there, if it was begun, and no text is being made. False: not in time.
  bool wait(Deadline deadline) noexcept;
  // Begins to make the text of what is recorded so far, for those who watch the group. Returns at
  // once; `done` is called once, by another thread, or by this one where there is nothing yet.
  // Throws Error(system).
  void print_soon(const std::string& error, const TraceDone& done);

 private:
  enum class State { unwritten, writing, written };
  void run(const std::string& error) noexcept;
  Result<std::string> print_now(const std::string& error) noexcept;
  void end(const std::string& failure) noexcept;

  const std::string directory_;
  ClockHistory clock_;
  std::mutex mutex_;  // of the following; begin() alone sets the first three
  std::string machine_, file_;
  std::shared_ptr<Recorder> recorder_;
  std::optional<std::string> early_error_;  // from before begin()
  State state_ = State::unwritten;
  int printing_ = 0;  // texts that are being made
  std::condition_variable written_;
};

}  // namespace ringwood
