// Which rank called an operation late, and by how much: from the times of the calls, or from what
// the others waited for. See blame.h for the rules.
#pragma once

#include <map>
#include <vector>

#include "tools/trace/blame.h"
#include "tools/trace/dumps.h"

namespace ringwood::tools {

// Beyond the clocks' uncertainty, less is not worth a word: seconds, part of the prediction.
inline constexpr double kNotable = 20e-6, kNotableShare = 0.05;

inline bool is_whole(const TracedPart& part) { return part.entered != kUnknown; }
// Its times may be compared with those of other ranks.
bool is_comparable(const TracedGroup& group, int rank);

class Lateness final {
 public:
  // `before`: the operation with the number before it, or null.
  Lateness(const TracedGroup& group, const TracedOperation& operation,
           const TracedOperation* before)
      : group_(group), operation_(operation), before_(before) {}

  // The call from which the others' lateness counts; kUnknown where calls are not known.
  double middle() const;
  // The latest first.
  std::vector<LateRank> late() const;

 private:
  std::vector<LateRank> by_calls(double middle) const;
  std::vector<LateRank> by_waits() const;
  std::vector<LateRank> without_file() const;
  double threshold(int rank) const;

  const TracedGroup& group_;
  const TracedOperation& operation_;
  const TracedOperation* const before_;
};

}  // namespace ringwood::tools
