// The text protocol of NCCL's RAS (its client connects to localhost:28028), so that clients of it
// can ask about our jobs: ncclras, Ray Train, scripts with nc.
//
//   CLIENT PROTOCOL 2       -> SERVER PROTOCOL 2
//   TIMEOUT seconds         -> OK                    nothing here waits for as long
//   SET FORMAT text|json    -> OK
//   [VERBOSE] STATUS        -> the report, then the end of the connection
//   MONITOR [lifecycle,trace,all] -> OK, then an event at a time; lifecycle if none is named
//   anything else           -> ERROR: ...
//
// A rank without an answer is a missing one (unresponsive; dead if its connection has ended), and a
// rank that has not called what others wait for has a smaller count of that collective: it is named
// under MISMATCH. CUDA devices are those of nobody: the number of the rank on its host. Counts are
// of calls begun, as there. Read from NCCL 2.30's documentation and source; no code is taken.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tools/top/sample.h"

namespace ringwood::tools {

class RasSession final {
 public:
  // `sample` returns the last one; null: the job has ended.
  using Current = std::function<const Sample*()>;
  explicit RasSession(Current sample) : sample_(std::move(sample)) {}

  static constexpr size_t kMaxLine = 1024;

  // The reply to a line, without its newline.
  std::string take(std::string_view line);
  // Nothing is read any more, and the connection ends once the replies are sent.
  bool finished() const { return finished_; }
  bool monitors() const { return monitors_; }
  // What is sent of an event to a session that monitors; "": nothing.
  std::string notice(const JobEvent& event) const;

 private:
  std::string monitor(std::string_view groups);

  Current sample_;
  bool json_ = false, verbose_ = false, finished_ = false;
  bool monitors_ = false, lifecycle_ = false, traces_ = false;
};

std::string ras_json(const Sample& sample);
// `verbose`: also lists what is not a small minority.
std::string ras_text(const Sample& sample, bool verbose);

}  // namespace ringwood::tools
