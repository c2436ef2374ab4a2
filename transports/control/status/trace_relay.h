// A rank's part in bringing the records of ranks to those who watch: answers for this rank from its
// texts, and passes on what is meant for others, by way of rank 0.
//
// One query at a time is on its way to each connection, and no further one until it is answered: so
// nothing piles up at a rank that is stopped. Whoever waits longer than the patience is told that
// the rank is silent; an answer that comes later is dropped. Used only in the control thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"
#include "transports/control/status/trace_texts.h"

namespace ringwood {

class TraceRelay final {
 public:
  // Rank 0 gives up first, so that the others hear from it which rank it was.
  static constexpr std::chrono::milliseconds kRootPatience{400}, kPatience{700};

  // `make`: as in TraceTexts. All references must outlive this.
  TraceRelay(asio::io_context& io, int rank, OobConnections& connections,
             const Heartbeats& heartbeats, const std::function<void(TraceDone)>& make)
      : rank_(rank),
        connections_(connections),
        patience_(heartbeats.patience(rank == 0 ? kRootPatience : kPatience)),
        texts_(io, make),
        timer_(io) {}

  // A watcher asks this rank.
  void ask(const TraceQuery& query, TraceReply reply);
  // A control connection brings a query or a piece. False: it is not valid here.
  bool on_query(int from, const TraceQuery& query);
  bool on_piece(int from, const TracePiece& piece);

 private:
  struct Pending {
    int to;  // whose answer it waits for
    TraceQuery query;
    TraceReply reply;
    Clock::time_point until;
  };

  void begin_all(const TraceQuery& query, const TraceReply& reply);
  void pass_on(const TraceQuery& query, TraceReply reply);
  void send_next(int to);
  void give_up_late();
  void set_timer();

  const int rank_;
  OobConnections& connections_;
  const Duration patience_;
  TraceTexts texts_;
  asio::steady_timer timer_;
  std::map<int, TraceQuery> asked_;  // by connection: the query that is not answered
  std::deque<Pending> pending_;      // the oldest first
  bool timed_ = false;
};

}  // namespace ringwood
