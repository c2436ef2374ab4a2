// What a step of tools/gpu-check finds out on the GPUs of this machine, as one JSON object.
#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "transports/cuda/device.h"

namespace ringwood::gpu_check {

// Not thread-safe.
class Findings final {
 public:
  // `look` returns "" or what is wrong; an exception is wrong, too, and the next check goes on.
  void check(const std::string& name, const std::function<std::string()>& look);
  // What is not a matter of right and wrong.
  void tell(const std::string& name, nlohmann::ordered_json value) {
    told_[name] = std::move(value);
  }
  bool ok() const { return ok_; }
  nlohmann::ordered_json json() const;

 private:
  bool ok_ = true;
  nlohmann::ordered_json told_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json checks_ = nlohmann::ordered_json::array();
};

// The devices, and how fast each copies to pinned memory and back.
void facts(const cuda::Driver& driver, Findings& findings);
// Whether the driver keeps the rules that transports/cuda relies on, and that its double in the
// tests keeps.
void driver_rules(const cuda::Driver& driver, Findings& findings);

}  // namespace ringwood::gpu_check
