// Planned failures: which calls of which entries return an error instead of doing anything.
#include <cstdio>
#include <map>
#include <sstream>

#include "tests/cuda/double/driver_state.h"

namespace fake_cuda {
namespace {

struct Plan {
  std::mutex mutex;
  bool read = false;
  // For each entry and number of a call, the code.
  std::map<std::pair<std::string, int>, unsigned> failures;
  std::map<std::string, int> calls;

  void parse(const std::string& text) {
    read = true;
    failures.clear();
    calls.clear();
    std::istringstream list(text);
    for (std::string entry; std::getline(list, entry, ',');) {
      char name[64];
      int call = 0;
      unsigned code = 0;
      if (std::sscanf(entry.c_str(), "%63[^:]:%d=%u", name, &call, &code) == 3)
        failures[{name, call}] = code;
      else
        std::fprintf(stderr, "fake CUDA: \"%s\" is not ENTRY:CALL=CODE\n", entry.c_str());
    }
  }

  unsigned next(const std::string& name) {
    const auto found = failures.find({name, ++calls[name]});
    return found == failures.end() ? 0 : found->second;
  }
};

}  // namespace

unsigned planned_failure(const std::string& plain_call) {
  Plan& plan = forever<Plan>();
  std::lock_guard lock(plan.mutex);
  if (!plan.read) plan.parse(settings().fail);
  if (plan.failures.empty()) return 0;
  const unsigned of_any = plan.next("*");
  const unsigned of_this = plan.next(plain_call);
  return of_this != 0 ? of_this : of_any;
}

void plan_failures(const std::string& text) {
  Plan& plan = forever<Plan>();
  std::lock_guard lock(plan.mutex);
  plan.parse(text);
}

}  // namespace fake_cuda
