// The Unix socket at which a rank tells its user what its group does (status_socket.h).
//
// Served by the control thread: it has no thread of its own, exists as long as the group, and says
// nothing unless it is asked. Bounded: kMaxWatchers connections, kMaxQueryBytes for a query, one
// query at a time on each, which are closed when they are silent or do not read for a minute. What
// is malformed closes its connection, and nothing else.
//
// Used in the thread of its io_context; the constructor before that runs.
#pragma once

#include <memory>
#include <vector>

#include "transports/base/asio.h"
#include "transports/control/status/status_socket.h"

namespace ringwood {

class StatusEndpoint final {
 public:
  static constexpr size_t kMaxWatchers = 8;
  // Reply at once or later, in the same thread.
  struct Answers {
    std::function<void(const ReportQuery&, ReportReply)> reports;
    std::function<void(const TraceQuery&, TraceReply)> trace;
  };

  // Throws Error(system).
  StatusEndpoint(asio::io_context& io, const StatusName& name, Answers answers);
  ~StatusEndpoint();
  StatusEndpoint(const StatusEndpoint&) = delete;
  StatusEndpoint& operator=(const StatusEndpoint&) = delete;

  // Ends all connections, and accepts no more.
  void close();

 private:
  class Watcher;
  void accept_next();
  // False: it cannot be accepted now, and waits.
  bool accept();

  asio::io_context& io_;
  const Answers answers_;
  asio::posix::stream_descriptor door_;
  asio::steady_timer again_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace ringwood
