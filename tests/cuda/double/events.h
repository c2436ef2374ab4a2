// Events. What streams wait for is the record that an event had when they were told to, not the
// event: it may be recorded again, or destroyed, while they wait.
#pragma once

#include "tests/cuda/double/captures.h"

namespace fake_cuda {

struct Record {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

}  // namespace fake_cuda

struct CUevent_st {
  CUcontext context = nullptr;
  std::mutex mutex;
  std::shared_ptr<fake_cuda::Record> record;  // the last one; null: never recorded
};
