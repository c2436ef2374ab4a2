// What a test asks of a double in its own process. The environment does the same for others:
//
//   FAKE_CUDA_DEVICES=8               how many devices there are (2 if it is not set); device i has
//                                     the UUID GPU-fa5ece00-0000-0000-0000-0000000000ii
//   CUDA_VISIBLE_DEVICES=1,GPU-...    which of them this process sees, as NVIDIA's driver reads it
//   FAKE_CUDA_DRIVER=12040            the version that the driver says it supports (13000)
//   FAKE_CUDA_MISSING=cuMemAlloc,...    entries that cuGetProcAddress does not find
//   FAKE_CUDA_FAIL=cuMemAlloc:2=1,...   the second call of an entry returns 1; the entry * is any
//   FAKE_CUDA_DELAY=SEED              each task of a stream begins up to 2 ms late, other ones with
//                                     each seed (0: none)
//   FAKE_CUDA_PINNED=BYTES            how much host memory a process may have pinned
//   FAKE_CUDA_LEAKS=1                 says at exit on standard error what was not released, and
//                                     makes an exit code of 0 one of 97
//
// It is read once, at the first call. Entries are named without the ending of their version. A copy
// of the library's file is another double, with its own state and a new look at the environment.
#pragma once

#include <cstddef>

extern "C" {
// Takes the place of FAKE_CUDA_FAIL; calls are counted from now on. Any thread.
void fake_cuda_fail(const char* plan);
// While on, no stream begins another task. Any thread.
void fake_cuda_pause(int on);
// At most that many tasks wait in a stream: a call that would add one waits. 0: any number. Any
// thread.
void fake_cuda_queue(size_t tasks);
// How many calls of any entry there were in this process. Any thread.
unsigned long long fake_cuda_calls(void);
// Where the host finds that memory of a device; null: it is none. Any thread.
void* fake_cuda_on_host(const void* address);
// "2 registrations, 1 stream": what is held in this process now; "" if nothing is. Any thread.
void fake_cuda_left(char* text, size_t room);
}
