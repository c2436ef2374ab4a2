// What the recorder (recorder.h) keeps of operations and of their steps. Plain values. Times are
// those of Clock, in nanoseconds; 0: not known, or not yet.
#pragma once

#include <cstdint>

#include "collectives/plan/fingerprint.h"

namespace ringwood {

enum class RecordedEnd : uint8_t { running, done, failed };

struct OperationRecord {
  Fingerprint call;  // what was called: number, collective, type, operation, row, segments
  // The call; its turn on its track; all ranks were known to have made the same call; the end. Only
  // ended_ns and agreed_ns are known of an operation that is recorded because it waited.
  int64_t entered_ns = 0, begun_ns = 0, agreed_ns = 0, ended_ns = 0;
  // It was noticed to wait since then; the true time is a few microseconds earlier.
  int64_t waiting_ns = 0;
  uint64_t bytes = 0;            // as the size of `ringwood perf`: of the whole buffer
  double predicted_seconds = 0;  // of private buffers, by the choice; 0: not known
  // The numbers of its step records, and of others among them: [first_step, end_step).
  uint64_t first_step = 0, end_step = 0;
  // The peer that this rank waited for as it was last seen to wait before `agreed_ns`; -1: it did
  // not wait. Where ranks agree by way of others (plan/agreement.h), it need not be the late one.
  int32_t waited_for = -1;
  uint32_t steps = 0;  // of this rank's plan
  uint8_t track = 0;
  RecordedEnd end = RecordedEnd::running;
  uint8_t reserved[6] = {};
};

// A message, or a local step, of a recorded operation. A message is sent when the link has taken
// its bytes: over sockets they may still be in the kernel.
struct StepRecord {
  uint64_t sequence = 0;  // of its operation
  int64_t posted_ns = 0, completed_ns = 0;
  uint64_t bytes = 0;  // as sent
  int32_t step = 0;    // of this rank's plan
  int32_t peer = -1;   // -1: local
  uint8_t kind = 0;    // StepKind
  uint8_t reserved[7] = {};
};

}  // namespace ringwood
