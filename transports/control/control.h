// The control connection: heartbeats, deaths and aborts, beside the data.
//
// It is a star around rank 0 (TCP, keyed like every connection), served by one thread of its own
// (Asio) that never takes the caller's locks or Python's.
//
// Failure detection:
// 1. When a process dies, the kernel closes its connection (also after kill -9), and rank 0 tells
//    all ranks. If rank 0 dies, every rank sees it.
// 2. A host that vanishes without closing is noticed when it has acknowledged nothing of the
//    heartbeats for the time of 12 of them and 0.25 s (host_watch.h).
// 3. A process that is only stopped still acknowledges, however long, and is warned about, not
//    killed. It gets a few more heartbeats, and then only the kernels probe each other
//    (host_watch.h).
//
// fail(): the first error wins. Rank 0 runs a status query (every rank replies with its OpStatuses
// within 60 ms), adds to a timeout the ranks that are behind and to a mismatch which ranks called
// what, and sends one group error to all. So every rank reports the same error, with the culprit's
// name, within 0.1 s. If rank 0 does not react within 300 ms, the local error stands. All these
// times grow with the heartbeat: twice the usual heartbeat, twice the times.
//
// When rank 0 has left in good order, the other ranks have no control connection: no death is
// reported falsely, but from then on an error stays with the rank that reports it, and a death is
// noticed only by the links to the dead rank.
//
// A change of parameters: rank 0 brings new ones, by which the ranks plan their collectives from a
// number on that all agree on, or none does (parameter_change.h). What the ranks see of the paths
// between them goes to rank 0 with their heartbeats.
//
// Whoever watches the group asks one of its ranks, by a Unix socket (status/status_endpoint.h);
// that one asks rank 0, and rank 0 all ranks, for a report of each, or for what it has recorded.
//
// Messages are bounded (control_messages.h); a malformed one closes the connection. Handlers run
// in the control thread, without locks held, and must not block. They may be called before
// make_control() has returned. In a group of one, `failed` runs inside fail().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/base/error.h"
#include "transports/control/clock_messages.h"
#include "transports/control/status/trace_messages.h"
#include "transports/group.h"

namespace ringwood {

// What a rank is doing now, in the collectives of one channel, which run one at a time. `text`
// ("all_reduce float32 x 1024, sum"; at most 200 bytes) is for people.
struct OpStatus {
  int64_t sequence = -1;  // operations begun; a rank with a lower number than others is behind
  bool inside = false;    // operation `sequence` is under way
  std::string text;
  bool waits_for_gpu = false;  // it cannot begin: its user's stream has not come to it
};
// The statuses of all channels of collectives, in an order that is the same on all ranks. The
// channel of an operation follows from its priority and the priorities of those before it. So if
// two ranks have the same operation on different channels, they have called different things, and
// rank 0 ends the group when it hears of both.
using OpStatuses = std::vector<OpStatus>;

// New parameters for all ranks.
struct Proposal {
  std::string parameters;  // opaque here; at most kMaxParameters (parameter_messages.h)
  std::string words;       // what changes, for rank 0's log once it is agreed
};

// A path that carries more or less than was expected of it.
struct PathReport {
  int from = 0, to = 0;           // ranks
  double rate = 0, expected = 0;  // bytes/s
};

class Control {
 public:
  struct Handlers {
    std::function<OpStatuses()> op_status;
    std::function<void(const Error&)> failed;  // at most once: the group error
    std::function<void(int rank)> left;        // that rank has left in good order
    // A change of parameters. prepare: this rank can plan by them, and from now on submits no
    // collective with the returned number or a later one; nothing: it cannot. Then commit or
    // abandon, for the same epoch: it submits again, from number `from` on by the new parameters.
    // False: nothing like that was prepared.
    std::function<std::optional<uint64_t>(uint32_t epoch, const std::string& parameters)> prepare;
    std::function<bool(uint32_t epoch, uint64_t from)> commit;
    std::function<void(uint32_t epoch)> abandon;
    // To be called once in a period of heartbeats: what this rank has to report. Then at rank 0: a
    // change that it proposes; one without parameters is none.
    std::function<std::vector<PathReport>()> paths;
    std::function<Proposal()> next_change;
    std::function<void(const PathReport&)> reported;  // rank 0: by any rank
    // What this rank tells those who watch the group: opaque here, at most kMaxReport bytes
    // (status/report_messages.h).
    std::function<std::string()> report;
    // Begins to make what this rank has recorded into a text, at most kMaxTraceText bytes
    // (status/trace_messages.h), for those who watch. Returns at once; what it is given is called
    // once, by any thread, at once or later, also when the control has ended. May throw Error.
    std::function<void(TraceDone)> trace;
    // How far rank 0's clock is ahead: a few times at first, then about once a second. Other ranks.
    std::function<void(const ClockSample&)> clock;
  };
  virtual ~Control() = default;  // leaves, unless leave() was called; never in a handler
  // Reports an error to the group; `failed` follows. Any thread, any number of times; only the
  // first counts.
  virtual void fail(Error error) = 0;
  // Rank 0: begins a change of parameters, after the one under way; of several that wait, the last
  // counts. Any thread. No effect without parameters, on other ranks, in a group of one, and once
  // the group has failed.
  virtual void propose(Proposal proposal) = 0;
  // Says goodbye, so that the end of our connection is not taken for a death. Waits until the
  // goodbye is sent, and then at most 200 ms for the acknowledgement.
  virtual void leave() noexcept = 0;
};

// Collective. Rank 0 accepts the connections at group.listener, the others connect to
// group.addresses[0]. Throws an Error that names the missing ranks.
std::unique_ptr<Control> make_control(const Group& group, Control::Handlers handlers);

}  // namespace ringwood
