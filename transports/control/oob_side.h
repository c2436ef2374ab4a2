// What the middle of the star (OobRoot, rank 0) and its points (OobPeer) do differently: how the
// first error becomes the group's, and who tells whom. All calls come from the control thread.
#pragma once

#include "transports/control/control_messages.h"

namespace ringwood {

class OobSide {
 public:
  virtual ~OobSide() = default;
  // Every type but those that both sides answer alike (introduce, goodbye, seen). False: it makes
  // no sense here.
  virtual bool on_message(int rank, const Message& message) = 0;
  // That rank has said goodbye.
  virtual void on_goodbye(int rank) = 0;
  // Its connection has ended without one.
  virtual void on_death(int rank, Error death) = 0;
  // This rank reports an error.
  virtual void report(Error error) = 0;
  // This rank is about to say goodbye: what is pending is decided now, and later errors of its own
  // stay with it.
  virtual void on_leaving() = 0;
};

}  // namespace ringwood
