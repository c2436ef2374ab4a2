// Streams, events and modules with one owner.
//
// An event may be destroyed while streams wait for it, and a stream while it has work: the driver
// keeps what it needs until then. A module must not be unloaded before its kernels have ended.
//
// Thread safety: as the driver's own, every function from any thread. Errors: thrown. In a child of
// fork() nothing but destruction is allowed. A Device must outlive what is made on it.
#pragma once

#include "transports/cuda/device.h"

namespace ringwood::cuda {

class Event {
 public:
  enum class Timing { off, on };
  // Without timing it costs the device less.
  explicit Event(const Device& device, Timing timing = Timing::off);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  CUevent get() const { return event_; }
  // What `stream` has now been given; forgets an earlier record.
  void record(CUstream stream);
  // True when all that was recorded is done, or nothing was.
  bool done() const;
  void synchronize() const;
  // Between two records that are done, both of events with timing.
  float milliseconds_since(const Event& start) const;

 private:
  const Device& device_;
  CUevent event_ = nullptr;
};

class Stream {
 public:
  // Kernels of a high stream get free multiprocessors first; what runs is not interrupted.
  enum class Priority { normal, high };
  // Does not synchronise with the default stream.
  explicit Stream(const Device& device, Priority priority = Priority::normal);
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

class Module {
 public:
  // `image`: a fat binary, a cubin, or PTX text.
  Module(const Device& device, const void* image);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  // Null: the module has no such kernel.
  CUfunction find(const char* name) const;
  // Loads the kernel at once: loading it at the first launch may wait for kernels that spin.
  CUfunction function(const char* name) const;

 private:
  const Device& device_;
  CUmodule module_ = nullptr;
};

}  // namespace ringwood::cuda
