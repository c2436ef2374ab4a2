// Streams and events with one owner.
//
// An event may be destroyed while streams wait for it, and a stream while it has work: the driver
// keeps what it needs until then.
//
// Thread safety: as the driver's own, every function from any thread. Errors: thrown. In a child of
// fork() nothing but destruction is allowed. A Device must outlive what is made on it.
#pragma once

#include "transports/cuda/device.h"

namespace ringwood::cuda {

class Event {
 public:
  explicit Event(const Device& device);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  CUevent get() const { return event_; }
  // What `stream` has now been given; forgets an earlier record.
  void record(CUstream stream);
  // True when all that was recorded is done, or nothing was.
  bool done() const;
  void synchronize() const;

 private:
  const Device& device_;
  CUevent event_ = nullptr;
};

class Stream {
 public:
  // Of the highest priority, because peers wait for its copies. Does not synchronise with the
  // default stream.
  explicit Stream(const Device& device);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  CUstream get() const { return stream_; }
  // Later work waits for what the event has recorded by now. The host goes on.
  void wait(const Event& event);
  bool idle() const;
  void synchronize() const;

 private:
  const Device& device_;
  CUstream stream_ = nullptr;
};

}  // namespace ringwood::cuda
