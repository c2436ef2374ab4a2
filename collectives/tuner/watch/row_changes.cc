#include "collectives/tuner/watch/row_changes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace ringwood {
namespace {

constexpr size_t kMaxPrinted = 8;

std::string name_of(const TuningChoice& choice) {
  const std::string name = name_of(choice.algorithm, choice.wire);
  return choice.segments == 1 ? name : fmt::format("{} in {} segments", name, choice.segments);
}

std::string time_text(double seconds) {
  if (std::isinf(seconds)) return "no time";
  return seconds < 1e-3 ? fmt::format("{:.3g} us", seconds * 1e6)
                        : fmt::format("{:.3g} ms", seconds * 1e3);
}

std::string print(const RowChange& c) {
  const std::string what = moves_data(c.collective)
                               ? fmt::format("{} of {} B", to_string(c.collective), c.bytes)
                               : to_string(c.collective);
  if (c.before == c.after)
    return fmt::format("{} by {} as before, expected {}", what, name_of(c.after),
                       time_text(c.after_seconds));
  return fmt::format("{} by {} instead of {}, expected {} instead of {}", what, name_of(c.after),
                     name_of(c.before), time_text(c.after_seconds), time_text(c.before_seconds));
}

const HostException* exception_of(const NetworkParameters& net, const HostException& like) {
  const auto it = std::ranges::find_if(net.exceptions, [&](const HostException& one) {
    return one.host == like.host && one.rail == like.rail;
  });
  return it == net.exceptions.end() ? nullptr : &*it;
}

void append(std::string& text, const std::string& more) {
  text += (text.empty() ? "" : "; ") + more;
}

}  // namespace

RowChange row_change(Collective collective, size_t bytes, const TuningChoice& before,
                     const std::vector<Candidate>& candidates) {
  RowChange change{collective, bytes, before, before, std::numeric_limits<double>::infinity(), 0};
  for (const Candidate& c : candidates) {
    if (c.chosen) change.after = {c.algorithm, c.segments, c.wire};
    if (c.chosen) change.after_seconds = c.seconds;
    if (c.algorithm == before.algorithm && c.wire == before.wire) change.before_seconds = c.seconds;
  }
  return change;
}

bool worthwhile(const std::vector<RowChange>& changes) {
  return std::ranges::any_of(changes, [](const RowChange& c) {
    return !(c.before == c.after) && c.before_seconds >= (1 + kGain) * c.after_seconds;
  });
}

bool alike(const NetworkParameters& a, const NetworkParameters& b) {
  const auto near = [](double x, double y, double times) {
    return x <= times * y && y <= times * x;
  };
  const auto rate = [&](double x, double y) { return near(x, y, 1 + kSameRate); };
  // What is shorter is lost in what a core needs for a message.
  const auto latency = [&](double x, double y) { return near(x + a.post, y + a.post, 2); };
  const auto exception = [&](const HostException& x, const HostException& y) {
    return x.host == y.host && x.rail == y.rail && rate(x.rate, y.rate);
  };
  if (a.rails != b.rails || a.far.has_value() != b.far.has_value()) return false;
  if (a.far && !(rate(a.far->rate, b.far->rate) && latency(a.far->latency, b.far->latency)))
    return false;
  return rate(a.nic, b.nic) && rate(a.both_ways, b.both_ways) && latency(a.latency, b.latency) &&
         std::ranges::equal(a.exceptions, b.exceptions, exception);
}

bool worse(const NetworkParameters& a, const NetworkParameters& b) {
  const auto less = [](double x, double y) { return x * (1 + kSameRate) < y; };
  const auto far = [](const NetworkParameters& net) { return net.far ? net.far->rate : net.nic; };
  return a.rails < b.rails || less(a.nic, b.nic) || less(far(a), far(b)) ||
         std::ranges::any_of(a.exceptions, [&](const HostException& now) {
           const HostException* const then = exception_of(b, now);
           return less(now.rate, then ? then->rate : 1);
         });
}

std::string print(const std::vector<RowChange>& changes) {
  std::string text;
  for (size_t i = 0; i < std::min(changes.size(), kMaxPrinted); ++i)
    append(text, print(changes[i]));
  if (changes.size() > kMaxPrinted)
    append(text, fmt::format("and {} more", changes.size() - kMaxPrinted));
  return text;
}

std::string print_difference(const NetworkParameters& before, const NetworkParameters& after) {
  std::string text;
  for (const HostException& now : after.exceptions) {
    const HostException* const then = exception_of(before, now);
    if (!then || then->rate != now.rate)
      append(text, fmt::format("{} reaches {:.0f} % of its rate", print(now), now.rate * 100));
  }
  for (const HostException& then : before.exceptions)
    if (!exception_of(after, then))
      append(text, fmt::format("{} reaches its rate again", print(then)));
  if (before.rails != after.rails)
    append(text, fmt::format("{} rails instead of {}", after.rails, before.rails));
  if (before.nic != after.nic)
    append(text, fmt::format("hosts send {:.3g} GB/s instead of {:.3g}", after.nic * 1e-9,
                             before.nic * 1e-9));
  if (before.latency != after.latency)
    append(text, fmt::format("a latency of {:.3g} us instead of {:.3g}", after.latency * 1e6,
                             before.latency * 1e6));
  if (text.empty() && !(before == after)) text = "other parameters between hosts";
  return text;
}

}  // namespace ringwood
