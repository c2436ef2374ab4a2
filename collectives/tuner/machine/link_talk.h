// Messages between ranks that have no operation on a channel, as when their mesh is just made:
// small ones, texts, and timed transfers, over the links of that channel.
//
// Each wait ends at the deadline, or as soon as the control
// connection reports an error, and then throws Error; so does an error of a link. What the links
// have completed is kept in Mesh::totals, as their later users expect. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "transports/base/clock.h"
#include "transports/mesh.h"

namespace ringwood {

class LinkTalk final {
 public:
  // `mesh` outlives it. `sleeps`: waits asleep, as the group's operations will, and so measures the
  // time of waking up with the rest. `channel`: channels.h.
  LinkTalk(Mesh& mesh, const Deadline& deadline, bool sleeps = false,
           int channel = kCollectiveChannel);

  // A receiver's memory must exist until the text is complete. `max` bounds what the peer may send.
  void send_text(int rank, const std::string& text) { send_texts({rank}, text); }
  void send_texts(const std::vector<int>& ranks, const std::string& text);
  // `patient`: it may take long, so this thread sleeps in between.
  std::string receive_text(int rank, size_t max, bool patient = false);

  // Round trips of 8 bytes with one other rank, which calls answer_pings(). Returns half of the
  // fastest in seconds, on both sides. At most 20 and, beyond the first three, for 4 ms.
  double ping(int rank);
  double answer_pings(int rank);

  static constexpr uint64_t kMaxTransfer = 64 << 20;
  // So many messages of 8 bytes to and from one other rank, in turns; `first`: of this one. Returns
  // the seconds of this thread's core for one that it sends and one that it receives.
  double take_turns(int rank, int times, bool first);

  // So many messages of 8 bytes to one other rank, one by one and as fast as both ends can, which
  // that rank answers when it has all. Returns the seconds of all together, for the sender.
  double stream(int rank, int count);
  void receive_stream(int rank, int count);

  // Whether it waits asleep from now on; returns whether it did. An awake thread has no other
  // work, so only the time of one that sleeps says what a core does for a message.
  bool sleep_in_waits(bool sleeps) { return std::exchange(sleeps_, sleeps); }

  // Sends `bytes` to `to` while it receives what `from` sends, which says how much; a rank of -1:
  // none. Both sides name each other. `seconds`: until the last byte's arrival was acknowledged;
  // while both directions are busy, until both were. `core`: of them, those in which this thread
  // had a core. `received`: 0 without a sender.
  struct Transfer {
    double seconds = 0, core = 0;
    uint64_t received = 0;
  };
  Transfer transfer(int to, uint64_t bytes, int from);

 private:
  struct Posted {
    uint64_t sends = 0, receives = 0;
  };
  // For transfers; not in their time.
  void allocate();
  void post_send(int rank, const void* data, size_t bytes);
  void post_receive(int rank, void* data, size_t bytes);
  // Until all posted receives from this rank are complete, or all posted sends.
  void await_receives(int rank, bool patient = false);
  void await_sends();
  bool poll(int rank);
  void pause(int rank, Clock::time_point begin, bool patient);
  void sleep();
  void disarm();

  Mesh& mesh_;
  const Deadline deadline_;
  const int channel_;
  bool sleeps_;
  bool armed_ = false;          // the links were, and one more iteration is due before a sleep
  std::vector<Posted> posted_;  // by rank, since the links were made
  std::vector<int> sending_;    // ranks to which sends are not complete
  std::vector<std::byte> out_, in_;
};

}  // namespace ringwood
