// What a step of tools/gpu-check has found, as one JSON object, and what a step may be told.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "transports/cuda/driver.h"

namespace ringwood::gpu_check {

// Given as name=value.
struct Settings {
  std::string program;                 // this one, to start ranks as processes
  std::vector<int> ranks = {2, 4, 8};  // of `ranks`
  int thin = 1;                        // of cases, each so-manieth
  size_t floats = 1'000'000;           // pairs that `conversions` draws for each type
  size_t largest = size_t{256} << 20;  // bytes of a buffer of `perf`
  int repetitions = 100;               // of small calls of `perf`
  std::string folder, role;            // of a rank that is a process of its own
  int rank = 0, size = 1;
};

// Not thread safe.
class Findings final {
 public:
  // `look` returns "" or what is wrong; an exception is wrong, too, and the next check goes on.
  void check(const std::string& name, const std::function<std::string()>& look);
  // What is not a matter of right and wrong here.
  void tell(const std::string& name, nlohmann::ordered_json value) { told_[name] = value; }
  // A check that cannot be made here, and why.
  void skip(const std::string& name, const std::string& why);

  bool ok() const { return ok_; }
  nlohmann::ordered_json json() const;

 private:
  bool ok_ = true;
  nlohmann::ordered_json told_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json checks_ = nlohmann::ordered_json::array();
};

using Step = void (*)(const cuda::Driver& driver, const Settings& settings, Findings& findings);

void facts(const cuda::Driver& driver, const Settings& settings, Findings& findings);
void driver_rules(const cuda::Driver& driver, const Settings& settings, Findings& findings);
void conversions(const cuda::Driver& driver, const Settings& settings, Findings& findings);
void ranks_as_threads(const cuda::Driver& driver, const Settings& settings, Findings& findings);
void ranks_as_processes(const cuda::Driver& driver, const Settings& settings, Findings& findings);
void faults(const cuda::Driver& driver, const Settings& settings, Findings& findings);
void perf(const cuda::Driver& driver, const Settings& settings, Findings& findings);
// What a process is that the last three start.
void one_rank(const cuda::Driver& driver, const Settings& settings, Findings& findings);

}  // namespace ringwood::gpu_check
