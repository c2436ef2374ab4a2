// The calls that the options of `ringwood perf` name, one after another, with buffers of their own.
//
// Collective: all ranks see the same calls in the same order. Thread safety: none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/gather.h"
#include "tools/perf/perf.h"
#include "tools/perf/perf_device.h"

namespace ringwood::tools {

// What is done with them.
class CallVisitor {
 public:
  virtual ~CallVisitor() = default;
  // The calls of this operation follow.
  virtual void begin(const OperationRow& row) = 0;
  // Sizes above this one are left out for lack of memory. Said once.
  virtual void reduced(size_t largest_bytes) = 0;
  // False: no more calls are wanted; the same on all ranks.
  virtual bool visit(const OperationRow& row, const Call& call, const Pattern& pattern) = 0;
};

class PerfCalls final {
 public:
  // All arguments must outlive it.
  PerfCalls(const PerfOptions& perf, double tolerance, Communicator& communicator,
            const std::vector<HostRanks>& hosts);

  // False where the visitor wanted no more. Throws Error(invalid_argument) if memory is not enough
  // for any size, and what the visitor throws.
  bool each(CallVisitor& visitor);

  // What is known of a call before it is measured.
  Row describe(const OperationRow& row, const Call& call) const;

 private:
  struct Kind;  // a row with its type, reduction and root
  bool each_of(const OperationRow& row, CallVisitor& visitor);
  bool sweep(const Kind& kind, const std::vector<size_t>& sizes, CallVisitor& visitor);
  bool visit_with_buffers(const OperationRow& row, Call& call, const Pattern& pattern,
                          CallVisitor& visitor) const;
  bool too_large(const OperationRow& row, size_t bytes, CallVisitor& visitor);

  const PerfOptions& perf_;
  const double tolerance_;
  Communicator& communicator_;
  std::optional<PerfDevice> device_;  // of --memory cuda
  const size_t memory_;               // that each rank may allocate
  bool reduced_ = false;              // what does not fit was said
};

}  // namespace ringwood::tools
