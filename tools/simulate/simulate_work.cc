#include "tools/simulate/simulate_work.h"

#include <cmath>

#include <fmt/format.h>

namespace ringwood::tools {
namespace {

// "40 s", "12 min", "3.5 h"
std::string rounded(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 100 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

void SimulationWork::begin(double messages) {
  done_ += stage_;
  stage_ = messages;
}

// Before some of it is done, nothing can be said about the rest.
void SimulationWork::show(const std::string& text, double part) {
  constexpr double kLittle = 0.01;
  const double done = expected_ > 0 ? (done_ + stage_ * part) / expected_ : 0;
  if (done < kLittle || done > 1) return tell_(text);
  const double taken = std::chrono::duration<double>(Clock::now() - since_).count();
  tell_(fmt::format("{}; {:.0f} % of all, about {} left", text, done * 100,
                    rounded(taken / done * (1 - done))));
}

}  // namespace ringwood::tools
