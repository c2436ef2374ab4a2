// Which of the candidates for a call is chosen, by what is known of each.
//
// Each rank alone knows whether its buffers are shared, so that cannot decide. The regret of a
// candidate is how many times longer it takes than the best one, for private or for shared buffers,
// whichever is more; those of the least regret may be chosen. Where both kinds of buffers cost the
// same, they are the cheapest. The model cannot tell apart what is within kModelMargin. So of those
// go first that take longer with one kind of buffers than another one which takes no longer with
// the other kind. Among the rest the choice is, in this order:
//
//   the least work of the busiest resource: whatever the model omits (other work, other groups)
//     slows down the others more
//   the fewest latencies: not one that would lose if each message on its way took twice the
//     latency, as it does where a rank has to be woken up (8 hosts over TCP: ring all_gather of
//     64 KiB takes 1.8 of bruck's time)
//   the fewest senders of other hosts to one rank: where many send to one port at once, networks
//     lose more than the model says (4 hosts over TCP: direct all_gather of 2 MiB takes 1.17 of
//     ring's time)
//   the first one
//
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ringwood {

// Predictions nearer than this count as equal: the model is not more accurate.
inline constexpr double kModelMargin = 1.05;

struct Contender {
  // Infinite: it is known to lose.
  double seconds = 0, zero_copy_seconds = 0;
  double handicap = 1;     // both are multiplied by it before they are compared
  double busy = 0;         // seconds of the busiest resource
  double latencies = 0;    // seconds of the chain of messages, where they pass a network
  size_t far_senders = 0;  // the most ranks of other hosts from which one rank receives
};

struct Decision {
  std::optional<size_t> chosen;      // nothing where none can be compared
  std::vector<const char*> why_not;  // of each; null for the chosen one
};

Decision decide(const std::vector<Contender>& all);

}  // namespace ringwood
