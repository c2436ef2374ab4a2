#include "collectives/tuner/machine/port_prior.h"

#include <algorithm>
#include <filesystem>

#include "transports/base/input_file.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

std::string first_word(const fs::path& path) {
  std::string word;
  InputFile(path) >> word;
  return word;
}

// In the file's own unit; 0 where there is none.
double number_in(const fs::path& path) {
  double value = 0;
  return InputFile(path) >> value && value > 0 ? value : 0;
}

template <class Each>
void for_entries(const fs::path& folder, Each each) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) each(entry.path());
}

}  // namespace

std::optional<PortPrior> port_prior(const std::string& sys) {
  const fs::path classes = fs::path(sys) / "class";
  PortPrior all{0, 0, false};
  for_entries(classes / "infiniband", [&](const fs::path& device) {
    for_entries(device / "ports", [&](const fs::path& port) {
      // "4: ACTIVE", and "100 Gb/sec (4X EDR)".
      const double gigabits = number_in(port / "rate");
      if (first_word(port / "state") != "4:" || gigabits == 0) return;
      all.rate += gigabits * 1e9 / 8;
      ++all.rails;
    });
  });
  all.rdma = all.rails > 0;
  if (all.rdma) return all;
  for_entries(classes / "net", [&](const fs::path& device) {
    std::error_code error;
    const bool up =
        first_word(device / "operstate") == "up" && fs::exists(device / "device", error);
    if (up) all.rate = std::max(all.rate, number_in(device / "speed") * 1e6 / 8);
  });
  if (all.rate == 0) return {};
  return PortPrior{all.rate, 1, false};
}

}  // namespace ringwood
