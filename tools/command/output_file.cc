#include "tools/command/output_file.h"

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood::tools {

OutputFile::OutputFile(const char* option, const std::optional<std::string>& path) {
  if (!path) return;
  if (*path == "-") {
    stream_ = stdout;
    return;
  }
  owned_.reset(std::fopen(path->c_str(), "we"));
  if (owned_ == nullptr)
    refuse(fmt::format("{}: cannot write {}: {}", option, *path, system_message("open")));
  stream_ = owned_.get();
}

}  // namespace ringwood::tools
