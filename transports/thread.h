// Threads of the library: signals stay with the host program (Python wants them in its main
// thread), and the name shows in top -H and in a debugger.
#pragma once

#include <pthread.h>

#include <csignal>
#include <functional>
#include <thread>
#include <utility>

namespace ringwood {

// `name`: at most 15 characters.
inline std::thread start_thread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace ringwood
