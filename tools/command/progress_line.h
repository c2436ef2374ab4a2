// What a long command is doing, on standard error.
//
// On a terminal: one line that is written over, ten times a second at most. Elsewhere (mpirun,
// srun, a log): a line every kProgressInterval, the first one after that time, so that nobody
// takes the command for hung and a short one says nothing; or from the beginning, if that was asked
// for. Not thread safe: the one that speaks has it.
#pragma once

#include <chrono>
#include <string>

#include "transports/base/clock.h"

namespace ringwood::tools {

inline constexpr std::chrono::seconds kProgressInterval{5};

class ProgressLine final {
 public:
  // `name` begins each line where there is no terminal: "tune".
  explicit ProgressLine(std::string name, bool at_once = false);
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Replaces what was shown; cut to the width of the terminal.
  void show(const std::string& text);
  // To be called before anything else is printed.
  void erase();

 private:
  const std::string name_;
  const bool terminal_;
  bool shown_ = false;
  Clock::time_point last_;
};

}  // namespace ringwood::tools
