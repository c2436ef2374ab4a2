// What a call that failed returns and says: the Error of the runtime as a result of NCCL's, and its
// sentence, kept for ncclGetLastError().
//
// Thread safety: all functions.
#pragma once

#include <string>

#include "collectives/nccl/nccl.h"
#include "transports/base/result.h"

// Also under NCCL's second name, for programs that put a function of their own before the first.
#define RINGWOOD_NCCL_TWIN(name) \
  extern "C" __attribute__((alias(#name), visibility("default"))) decltype(name) p##name

namespace ringwood::nccl {

// What an Error of CUDA has for its transport.
inline constexpr const char* kCuda = "cuda";

ncclResult_t result_of(const Error& error);

// Keeps the sentence for this thread, for the process and, if it is given, for the communicator.
ncclResult_t tell(const Error& error, ncclComm* comm = nullptr);
// Of this thread, else of any; "" if there was none.
std::string last_sentence();

[[noreturn]] void refuse(std::string why);         // ncclInvalidArgument
[[noreturn]] void refuse_to_use(std::string why);  // ncclInvalidUsage

// Carries out `body`; what it throws is told.
template <class Body>
ncclResult_t guarded(Body body) {
  try {
    body();
    return ncclSuccess;
  } catch (...) {
    return tell(caught_error());
  }
}

}  // namespace ringwood::nccl
