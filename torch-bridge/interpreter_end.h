// What becomes of threads that are inside a call when Python ends.
//
// The end of the interpreter leaves all groups, which ends every wait with an error. The thread
// that waited would then ask for Python's lock. Up to 3.13, Python answers by unwinding the thread,
// and unwinding through C++ that throws nothing (the destructor of what gave the lock back) aborts
// the process. So such a thread stays where it is, as Python 3.14 would have it.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <atomic>

namespace ringwood {

inline bool in_main_thread() { return gettid() == getpid(); }

// Set before the groups are left.
inline std::atomic<bool> python_is_ending{false};

// Threads that are awaited before Python ends, and that may therefore return.
inline thread_local bool awaited_at_end = false;

inline bool python_is_finalizing() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// At the end of everything that may have waited. Never with Python's lock: who stays would keep it.
inline void stay_if_python_ends() {
  if (!python_is_ending.load(std::memory_order_relaxed)) return;
  if (in_main_thread() || awaited_at_end) return;
  // Whether a thread has the lock is no longer known while Python finalizes.
  if (!python_is_finalizing() && PyGILState_Check()) return;
  while (true) pause();
}

}  // namespace ringwood
