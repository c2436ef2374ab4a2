// The control connections of one rank, and what it knows about the ranks at their other ends.
//
// The root (rank 0) has one to every other rank, a peer has one to the root. A connection ends in
// good order, by a goodbye, or by the death of its rank. Used only in the control thread; add()
// also before that runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/control/control_channel.h"

namespace ringwood {

class OobConnections final {
 public:
  explicit OobConnections(int size) : ends_(size) {}

  int size() const { return static_cast<int>(ends_.size()); }
  void add(int rank, std::unique_ptr<ControlChannel> channel);
  // True if messages can be sent to the rank: it is connected and has not said goodbye.
  bool present(int rank) const { return ends_[rank].present(); }
  // Precondition: the rank has a connection. No effect once that is closed.
  void send(int rank, MessageType type, std::string_view body = {});
  void send_to_present(MessageType type, std::string_view body = {});
  // Ends the connection to a rank whose host is gone (control_channel.h). Precondition: as send().
  void look(int rank, Clock::time_point now) { ends_[rank].channel->look(now); }

  void introduce(int rank, Introduction who) { ends_[rank].who = std::move(who); }
  // Its introduction has come.
  bool introduced(int rank) const { return ends_[rank].who.pid != 0; }
  // Its introduction; pid 0: none has come.
  const Introduction& who(int rank) const { return ends_[rank].who; }
  // "rank 3 (host-b, pid 4711)".
  std::string name(int rank) const;

  void set_left(int rank) { ends_[rank].left = true; }
  bool left(int rank) const { return ends_[rank].left; }
  void set_died(int rank) { ends_[rank].died = true; }
  bool died(int rank) const { return ends_[rank].died; }

 private:
  struct End {
    std::unique_ptr<ControlChannel> channel;  // null: no connection
    Introduction who;                         // pid 0: no introduction has come yet
    bool left = false;                        // it has said goodbye
    bool died = false;

    bool present() const { return channel && channel->open() && !left; }
  };
  std::vector<End> ends_;  // by rank
};

}  // namespace ringwood
