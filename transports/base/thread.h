// Threads of the library. Signals stay with the host program (Python wants them in its main
// thread), and the name shows in top -H and in a debugger.
#pragma once

#include <pthread.h>

#include <csignal>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "transports/base/error.h"

namespace ringwood {

// `name`: at most 15 characters. Throws Error(system).
inline std::thread start_thread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    // By the thread itself: for another, libc opens a file that a program started then inherits.
    std::thread thread([name = std::string(name), body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      body();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& refused) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    // Without fmt: the bridge includes this file, and there fmt is torch's own.
    throw Error(ErrorCode::system, "the thread " + std::string(name) +
                                       " cannot be started: " + refused.code().message() +
                                       "; allow more (ulimit -u, ulimit -v, the container's limit "
                                       "of processes)");
  }
}

}  // namespace ringwood
