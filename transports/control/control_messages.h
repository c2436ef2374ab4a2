// The messages of the control connection: [type 1][reserved 1][length 2][body]. A body has at most
// 2048 bytes, new parameters 16 KiB and some, a report 8 KiB, a page of them or a piece of a trace
// 32 KiB and some.
// Bodies are encoded and decoded by base/bytes.h.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "transports/base/bytes.h"
#include "transports/base/options.h"
#include "transports/control/clock_messages.h"
#include "transports/control/control.h"
#include "transports/control/parameter_messages.h"
#include "transports/control/status/report_messages.h"
#include "transports/control/status/trace_messages.h"

namespace ringwood {

enum class MessageType : uint8_t {
  introduce = 1,   // both ways, first: pid, host
  heartbeat,       // both ways: the reply to query, without texts
  goodbye,         // both ways: the sender leaves in good order
  seen,            // acknowledges goodbye
  left,            // root -> others: rank
  failure,         // rank -> root: its Error
  query,           // root -> all: asks for the OpStatuses
  op_status,       // rank -> root: the reply
  group_error,     // root -> all: the group error
  prepare_change,  // root -> all, a change of parameters (parameter_messages.h)
  change_reply,    // rank -> root
  commit_change,   // root -> all
  abandon_change,  // root -> all
  path_report,     // rank -> root: a path from it
  report_request,  // root -> rank: asks for its report, for those who watch the group
  report,          // rank -> root: the reply, opaque
  report_query,    // rank -> root: asks for a page of all ranks' reports
  report_page,     // root -> rank: the reply
  clock,           // rank -> root, and its answer (clock_messages.h)
  trace_query,     // both ways: asks for a piece of what a rank recorded, for those who watch
  trace_piece      // both ways: the reply (trace_messages.h)
};

struct Message {
  MessageType type = MessageType::heartbeat;
  std::string body;
};

struct Introduction {
  int pid = 0;
  std::string host;
};

struct LeftRank {
  int rank = 0;  // the reader checks it against the group's size
};

inline constexpr size_t kMaxBody = 2048, kMaxHost = 64, kMaxOpStatus = 200, kMaxName = 48;
static_assert(kMaxBody >= kMaxInFlight * (kMaxOpStatus + 14) + 4, "all channels fit");

void fields(auto& io, Introduction& introduction) {
  io.number(introduction.pid);
  io.text(introduction.host, kMaxHost);
}

void fields(auto& io, LeftRank& left) { io.number(left.rank, 0, std::numeric_limits<int>::max()); }

void fields(auto& io, OpStatuses& op_statuses) {
  io.list(op_statuses, kMaxInFlight, [&](OpStatus& op_status) {
    io.number(op_status.sequence);
    io.number(op_status.inside);
    io.text(op_status.text, kMaxOpStatus);
    io.number(op_status.waits_for_gpu);
  });
}

// The reader checks the ranks, and that rates are finite and not negative.
void fields(auto& io, PathReport& report) {
  io.number(report.from, 0, std::numeric_limits<int>::max());
  io.number(report.to, 0, std::numeric_limits<int>::max());
  for (double* rate : {&report.rate, &report.expected}) {
    auto bits = std::bit_cast<uint64_t>(*rate);
    io.number(bits);
    *rate = std::bit_cast<double>(bits);
  }
}

// Of ranks of a group of that size, or of none. Nobody may use the ranks of an error that a peer
// sent before this was asked.
inline bool is_of_group(const Error& error, int size) {
  const auto known = [=](int rank) { return rank >= -1 && rank < size; };
  return known(error.rank) && known(error.peer);
}

// Always fits: the cause is cut if necessary.
void fields(auto& io, Error& error) {
  io.number(error.code, ErrorCode::invalid_argument, ErrorCode::internal);
  for (int* value : {&error.rank, &error.peer, &error.step}) io.number(*value);
  io.number(error.sequence);
  io.text(error.host, kMaxHost);
  io.text(error.collective, kMaxName);
  io.text(error.transport, kMaxName);
  io.text(error.cause, kMaxBody - sizeof(ByteLength) - io.size());
}

// Of the body.
constexpr size_t max_bytes(MessageType type) {
  switch (type) {
    case MessageType::prepare_change: return kMaxParameters + 8;
    case MessageType::report: return kMaxReport;
    case MessageType::report_page: return kMaxPage;
    case MessageType::trace_piece: return kMaxTraceReply;
    default: return kMaxBody;
  }
}

std::string frame(MessageType type, std::string_view body = {});

// Cuts a stream into messages.
class MessageReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  enum class Found { message, nothing, malformed };
  // malformed: `why` says what was wrong; the stream cannot be read any further.
  Found next(Message& message, std::string& why);

 private:
  std::string buffer_;
};

}  // namespace ringwood
