// The environment as a test wants it. It is the whole process's: no other thread may read it.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace ringwood::testing {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Exactly these variables, for the time of a scope.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const Environment& variables) {
    for (char** entry = environ; *entry; ++entry) before_.emplace_back(*entry);
    clearenv();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    clearenv();
    for (const std::string& entry : before_) {
      size_t equals = entry.find('=');
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
  }

 private:
  std::vector<std::string> before_;
};

}  // namespace ringwood::testing
