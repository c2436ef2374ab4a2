// gpu_check STEP: one step of tools/gpu-check. Prints a JSON object; exit code 0 where all is well.
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "tools/gpu_check/gpu_check.h"
#include "transports/base/options.h"

namespace ringwood::gpu_check {

void Findings::check(const std::string& name, const std::function<std::string()>& look) {
  std::string why;
  try {
    why = look();
  } catch (...) {
    why = caught_error().cause;
  }
  ok_ = ok_ && why.empty();
  checks_.push_back({{"check", name}, {"ok", why.empty()}, {"why", why}});
}

nlohmann::ordered_json Findings::json() const {
  nlohmann::ordered_json all = told_;
  all["ok"] = ok_;
  all["checks"] = checks_;
  return all;
}

namespace {

int run(std::string_view step) {
  Findings findings;
  auto driver = cuda::load(Options::from_environment().cuda.library);
  if (!driver) {
    findings.tell("no_driver", driver.error().cause);
    findings.check("driver", [&] { return driver.error().cause; });
  } else if (step == "facts") {
    facts(**driver, findings);
  } else if (step == "driver") {
    driver_rules(**driver, findings);
  } else {
    fmt::print(stderr, "gpu_check: there is no step {}; there are facts and driver\n", step);
    return 2;
  }
  fmt::print("{}\n", findings.json().dump(1));
  return findings.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ringwood::gpu_check

int main(int count, char** arguments) {
  return ringwood::gpu_check::run(count == 2 ? arguments[1] : "");
}
