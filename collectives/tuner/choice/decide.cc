#include "collectives/tuner/choice/decide.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ringwood {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Decider {
 public:
  explicit Decider(const std::vector<Contender>& all) : all_(all) {
    decision_.why_not.resize(all.size());
    for (const Contender& s : all) {
      best_ = std::min(best_, own(s));
      best_shared_ = std::min(best_shared_, shared(s));
    }
  }

  Decision run() {
    const double regret = least([&](const Contender& s) { return regret_of(s); });
    keep([&](const Contender& s) { return regret_of(s) <= regret * kModelMargin; },
         [&](const Contender& s) { return why_slower(s); });
    leave_the_dominated();
    keep_least([](const Contender& s) { return s.busy; }, "as fast, but with more work");
    keep_least([](const Contender& s) { return own(s) + s.latencies; },
               "as fast, but with more latencies");
    const double senders = least([](const Contender& s) { return s.far_senders; });
    keep([&](const Contender& s) { return static_cast<double>(s.far_senders) <= senders; },
         [](const Contender&) { return "as fast, but from more senders at once"; });
    for (size_t i = 0; i < all_.size(); ++i) {
      if (decision_.why_not[i]) continue;
      if (!decision_.chosen)
        decision_.chosen = i;
      else
        decision_.why_not[i] = "as fast, but after it in the table";
    }
    return std::move(decision_);
  }

 private:
  static double own(const Contender& s) { return s.seconds * s.handicap; }
  static double shared(const Contender& s) { return s.zero_copy_seconds * s.handicap; }

  double regret_of(const Contender& s) const {
    const auto times = [](double seconds, double best) { return best > 0 ? seconds / best : 1; };
    return std::max(times(own(s), best_), times(shared(s), best_shared_));
  }

  // Of those that are left.
  template <class Value>
  double least(const Value& value) const {
    double least = kInfinite;
    for (size_t i = 0; i < all_.size(); ++i)
      if (!decision_.why_not[i]) least = std::min(least, static_cast<double>(value(all_[i])));
    return least;
  }

  template <class Good, class Why>
  void keep(const Good& good, const Why& why_not) {
    for (size_t i = 0; i < all_.size(); ++i)
      if (!decision_.why_not[i] && !good(all_[i])) decision_.why_not[i] = why_not(all_[i]);
  }

  template <class Value>
  void keep_least(const Value& value, const char* why_not) {
    const double most = least(value) * kModelMargin;
    keep([&](const Contender& s) { return value(s) <= most; },
         [&](const Contender&) { return why_not; });
  }

  const char* why_slower(const Contender& s) const {
    const double most = best_ * kModelMargin;
    if (std::isinf(s.seconds)) return "slower";
    return own(s) <= most      ? "slower with shared buffers"
           : s.seconds <= most ? "rounds sums more often than its speed is worth"
                               : "slower";
  }

  // Never all: whoever has the least product of both times is left.
  void leave_the_dominated() {
    const std::vector<const char*> before = decision_.why_not;
    for (size_t i = 0; i < all_.size(); ++i)
      for (size_t k = 0; k < all_.size() && !decision_.why_not[i]; ++k)
        if (!before[k]) decision_.why_not[i] = why_dominated(all_[i], all_[k]);
  }

  static const char* why_dominated(const Contender& s, const Contender& by) {
    const auto gains = [](double a, double b) { return a * kModelMargin < b; };
    if (gains(own(by), own(s)) && !gains(shared(s), shared(by)))
      return "slower with private buffers";
    if (gains(shared(by), shared(s)) && !gains(own(s), own(by)))
      return "slower with shared buffers";
    return nullptr;
  }

  const std::vector<Contender>& all_;
  double best_ = kInfinite, best_shared_ = kInfinite;
  Decision decision_;
};

}  // namespace

Decision decide(const std::vector<Contender>& all) { return Decider(all).run(); }

}  // namespace ringwood
