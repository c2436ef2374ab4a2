// One step of tools/gpu-check on the GPUs of this machine: prints a JSON object, and exits with 0
// where all is right, else with 1.
//
//   gpu_check facts|driver|conversions|ranks|processes|faults|perf [NAME=VALUE...]
//
// The names are those of Settings (findings.h).
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tools/gpu_check/findings.h"
#include "transports/base/error.h"

namespace ringwood::gpu_check {
namespace {

struct NamedStep {
  std::string_view name;
  Step step;
};
constexpr NamedStep kSteps[] = {
    {"facts", facts},
    {"driver", driver_rules},
    {"conversions", conversions},
    {"ranks", ranks_as_threads},
    {"processes", ranks_as_processes},
    {"faults", faults},
    {"perf", perf},
    {"one-rank", one_rank},
};

void set(Settings& settings, const std::string& argument) {
  const size_t sign = argument.find('=');
  const std::string name = argument.substr(0, sign);
  const std::string value = sign == argument.npos ? "" : argument.substr(sign + 1);
  if (value.empty()) throw std::invalid_argument(argument + " is not NAME=VALUE");
  if (name == "ranks") {
    settings.ranks.clear();
    for (size_t at = 0; at < value.size(); at = value.find(',', at) + 1) {
      settings.ranks.push_back(std::stoi(value.substr(at)));
      if (value.find(',', at) == value.npos) break;
    }
  } else if (name == "thin") {
    settings.thin = std::max(1, std::stoi(value));
  } else if (name == "floats") {
    settings.floats = std::stoul(value);
  } else if (name == "largest") {
    settings.largest = std::stoul(value);
  } else if (name == "repetitions") {
    settings.repetitions = std::max(1, std::stoi(value));
  } else if (name == "folder") {
    settings.folder = value;
  } else if (name == "role") {
    settings.role = value;
  } else if (name == "rank") {
    settings.rank = std::stoi(value);
  } else if (name == "size") {
    settings.size = std::stoi(value);
  } else {
    throw std::invalid_argument("there is no setting " + name);
  }
}

int run(int count, char** arguments) {
  const std::string_view wanted = count > 1 ? arguments[1] : "";
  const NamedStep* found = nullptr;
  for (const NamedStep& step : kSteps)
    if (step.name == wanted) found = &step;
  if (!found) throw std::invalid_argument(fmt::format("there is no step \"{}\"", wanted));
  Settings settings;
  settings.program = "/proc/self/exe";
  for (int i = 2; i < count; ++i) set(settings, arguments[i]);
  // Kernels of several ranks must not share a queue of the hardware; read by the driver once.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  Findings findings;
  auto driver = cuda::load();
  if (driver) {
    found->step(**driver, settings, findings);
  } else {
    findings.check("driver", [&] { return driver.error().cause; });
    findings.tell("no_driver", true);
  }
  fmt::print("{}\n",
             findings.json().dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  return findings.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ringwood::gpu_check

int main(int count, char** arguments) try {
  return ringwood::gpu_check::run(count, arguments);
} catch (const std::invalid_argument& error) {
  fmt::print(stderr, "gpu_check: {}\n", error.what());
  return 2;
} catch (const std::exception& error) {
  fmt::print(stderr, "gpu_check: {}\n", error.what());
  return 1;
}
