// Python's lock, given back for a scope by a thread that may or may not have it.
//
// Ending a communicator waits for its threads and for peers; holding the GIL meanwhile would stop
// this process's other threads, and hang if one of those that are waited for needs it.
#pragma once

#include <Python.h>

namespace ringwood {

class WithoutGil final {
 public:
  WithoutGil() {
    if (Py_IsInitialized() && PyGILState_Check()) state_ = PyEval_SaveThread();
  }
  ~WithoutGil() {
    if (state_) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace ringwood
