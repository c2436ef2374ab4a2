// A file that a command writes its results to as they come, or standard output.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace ringwood::tools {

class OutputFile final {
 public:
  // None: nothing is written; "-": standard output. Throws Error(invalid_argument) if the file
  // cannot be made; `option` names it there: "--csv".
  OutputFile(const char* option, const std::optional<std::string>& path);

  explicit operator bool() const { return stream_ != nullptr; }
  bool is_standard_output() const { return stream_ == stdout; }
  std::FILE* stream() const { return stream_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> owned_;
  std::FILE* stream_ = nullptr;
};

}  // namespace ringwood::tools
