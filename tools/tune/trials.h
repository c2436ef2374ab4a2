// How `ringwood tune` measures a call: on known data, in batches that begin together on all ranks;
// its time is that of the slowest rank. Collective; throws the group's Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tools/perf/perf_operations.h"
#include "tools/tune/tune.h"

namespace ringwood::tools {

// A call of `count` elements a block as the options say, without buffers.
Call call_of(const TuneOptions& tune, const OperationRow& row, Communicator& group, size_t count);

// The buffers of a call, which gets them, and what is in them.
class CallData final {
 public:
  CallData(const TuneOptions& tune, const OperationRow& row, Call& call);
  const Pattern& pattern() const { return pattern_; }

 private:
  Buffer in_;
  std::optional<Buffer> out_;
  Pattern pattern_;
};

// Runs it once on known data; of all ranks together.
int64_t wrong_elements(const OperationRow& row, const Call& call, const Pattern& pattern);

// Seconds of one of so many on this rank.
double batch(const OperationRow& row, const Call& call, int iterations);
// As many as fill a batch, for an operation that takes so long.
int iterations_for(double seconds);
// Each becomes that of the slowest rank.
void take_slowest(Communicator& group, std::vector<double>& seconds);

// The same on all ranks, of one state.
template <class T>
void shuffle(std::vector<T>& order, uint64_t& random) {
  for (size_t i = order.size(); i > 1; --i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(random >> 33) % i]);
  }
}

}  // namespace ringwood::tools
