// The Unix sockets at which the ranks of this host tell what they do: one per rank and group, in
// the abstract namespace, so that nothing is on disk and a killed process leaves nothing behind.
// They belong to a network namespace; a container with its own is watched from inside.
//
// Only processes of the same user, and root, are let in (SO_PEERCRED). Messages are
// [length 4][ReportQuery] and [length 4][ReportPage], or TraceQuery and TracePiece, one of each in
// turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/owned_fd.h"
#include "transports/base/result.h"
#include "transports/control/status/report_messages.h"
#include "transports/control/status/trace_messages.h"

namespace ringwood {

// Changes with every change of the messages or of the reports in them. A query that is added is
// none: a rank that does not know it ends the connection, and answers the others as before.
inline constexpr int kStatusVersion = 1;
inline constexpr size_t kMaxQueryBytes = 64;
inline constexpr size_t kMaxStatusReply = std::max(kMaxPage, kMaxTraceReply);

struct StatusName {
  int version = kStatusVersion;
  unsigned user = 0;
  int pid = 0;         // in its own process namespace
  uint64_t group = 0;  // the same on all ranks of a group, and of no other
  int rank = 0;
  bool operator==(const StatusName&) const = default;
};
std::string to_string(const StatusName& name);  // "ringwood-status-1/1000/4711/00c0ffee.../3"
std::optional<StatusName> parse_status_name(std::string_view text);

// Those of this network namespace, by group and rank. Any process may have made such a name: who
// is behind it is checked by the kernel, in connect_status().
std::vector<StatusName> status_names();

// Throw Error(system).
OwnedFd listen_status(const StatusName& name);
// The socket of `name` or the reason: gone, or it belongs to another user than its name says or
// than this one (whom root may ask).
Result<OwnedFd> connect_status(const StatusName& name, Deadline deadline);
// The user at the other end, as the kernel knows it; none if it does not say.
std::optional<unsigned> user_behind(int fd);

// One query and its page.
Result<ReportPage> ask_status(int fd, const ReportQuery& query, Deadline deadline);
// One query and its piece, which is of that query. Where it is `here` it fits into its text, and is
// empty only at the end of that.
Result<TracePiece> ask_trace(int fd, const TraceQuery& query, Deadline deadline);

}  // namespace ringwood
