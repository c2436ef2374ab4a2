// One file of a trace (collectives/recorder/trace_dump.h), or the same text as a running rank has
// sent it, read and checked; and its rank's clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringwood::tools {

// Throws Error(invalid_argument) with the file's name.
[[noreturn]] void refuse_dump(const std::string& file, const std::string& why);

// Throw std::exception where the number does not fit.
int number_in(const nlohmann::json& json, const char* key, int least, int most);
int64_t time_in(const nlohmann::json& json);  // 0 or more

// From a rank's time to rank 0's, in nanoseconds. No sum of what was checked overflows.
class RankClock final {
 public:
  RankClock() = default;
  explicit RankClock(const nlohmann::json& samples);
  bool known() const { return !samples_.empty(); }
  int64_t to_root(int64_t ns) const;
  // Instead of what is not known.
  void assume(int64_t offset_ns) { samples_ = {{0, offset_ns, 0}}; }
  double uncertainty() const;  // seconds

 private:
  struct Sample {
    int64_t at = 0, offset = 0, uncertainty = 0;
  };
  std::vector<Sample> samples_;  // in the order of their times
};

// An operation that its rank has begun and not ended.
struct RunningCall {
  int64_t sequence = 0;
  std::string name;     // "all_reduce float32 x 1024"
  double seconds = 0;   // since it began, or was seen to wait
  bool agreed = false;  // all ranks have called it
  int waited_for = -1;  // until then; -1: for nobody
};

// All but the records, which may be large.
struct DumpHead {
  std::string file;                         // or what the text is called
  std::shared_ptr<const std::string> text;  // null: it is in the file
  std::filesystem::file_time_type written;
  std::string group, session, host, machine, error;
  int rank = 0, size = 1;
  std::vector<int> hosts;
  std::vector<std::string> ways;  // empty in files of before
  RankClock clock;
  std::vector<RunningCall> running;
};

DumpHead read_head(const std::string& file);
// `name`: for what is wrong with it.
DumpHead read_head_of(const std::string& name, std::string text);
// The whole text, of which the head was read.
nlohmann::json read_records(const DumpHead& head);

}  // namespace ringwood::tools
