// The control connection: heartbeats, deaths and aborts, beside the data.
//
// A star around rank 0 (TCP, keyed like every connection), served by one thread of its own (Asio)
// that never needs the caller's locks nor Python's. A rank that dies closes its connection (the
// kernel does it, also after kill -9); rank 0 tells all. If rank 0 dies, everybody sees it. A host
// that vanishes without closing is noticed by TCP_USER_TIMEOUT over the heartbeats; a process that
// is only stopped still acknowledges, however long, and is warned about, not killed. It gets a few
// heartbeats more, and then the kernels ask each other (host_watch.h).
//
// fail(): the first error wins. Rank 0 takes a status query (every rank answers with its OpStatuses
// within 60 ms), adds to a timeout who is behind and to a mismatch who called what, and sends one
// group error to all, so every rank reports the same error with the culprit's name within 0.1 s.
// Without an answer from rank 0 within 300 ms the local error stands.
//
// When rank 0 has left in good order, the others stay connected to nobody: no death is reported
// falsely, but from then on an error stays with the rank that reports it, and a death is noticed by
// the links to the dead only.
//
// Messages are bounded (type, length <= 2048); a bad one closes the connection.
// Handlers run in the control thread, without locks held, and must not block. They may be called
// before make_control() has returned. In a group of one, `failed` runs inside fail().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transports/base/error.h"
#include "transports/group.h"

namespace ringwood {

// What a rank is doing now, of the collectives of one channel: they are carried out one at a time.
// `text` ("all_reduce float32 x 1024, sum"; at most 200 bytes) is shown to people.
struct OpStatus {
  int64_t sequence = -1;  // operations begun; a rank with a lower number than the others' is behind
  bool inside = false;    // within operation `sequence` now
  std::string text;
};
// Of all channels of collectives, in an order that is the same on all ranks. An operation has its
// channel by its priority and the priorities of those before it; so ranks of which one has it on
// another channel have called different things, and rank 0 ends the group when it hears of both.
using OpStatuses = std::vector<OpStatus>;

class Control {
 public:
  struct Handlers {
    std::function<OpStatuses()> op_status;
    std::function<void(const Error&)> failed;  // at most once: the group's group_error
    std::function<void(int rank)> left;        // that rank ended in good order
  };
  virtual ~Control() = default;  // leaves, if it was not done; never in a handler
  // Reports an error to the group; `failed` follows. Any thread, any number of times; the first
  // counts.
  virtual void fail(Error error) = 0;
  // Says goodbye: our end of connection is no death. Waits until it is on its way, and then 200 ms
  // at most for the answer.
  virtual void leave() noexcept = 0;
};

// Collective. Rank 0 takes the connections from group.listener, the others dial group.addresses[0].
// Throws Error naming the ranks that are missing.
std::unique_ptr<Control> make_control(const Group& group, Control::Handlers handlers);

}  // namespace ringwood
