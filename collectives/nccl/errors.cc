#include "collectives/nccl/errors.h"

#include <mutex>

#include "collectives/nccl/comm.h"

namespace ringwood::nccl {
namespace {

thread_local std::string of_this_thread;

struct LastOfAny {
  std::mutex mutex;
  std::string sentence;
};
// Never destroyed: threads of the program may fail while it ends.
LastOfAny& last_of_any() {
  static auto* const last = new LastOfAny;
  return *last;
}

}  // namespace

ncclResult_t result_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument: return ncclInvalidArgument;
    case ErrorCode::mismatch:
    case ErrorCode::unsupported: return ncclInvalidUsage;
    case ErrorCode::timeout:
    case ErrorCode::peer_lost:
    case ErrorCode::network: return ncclRemoteError;
    case ErrorCode::system:
      return error.transport == kCuda ? ncclUnhandledCudaError : ncclSystemError;
    case ErrorCode::aborted:
    case ErrorCode::internal: break;
  }
  return ncclInternalError;
}

ncclResult_t tell(const Error& error, ncclComm* comm) {
  of_this_thread = error.message();
  {
    LastOfAny& last = last_of_any();
    const std::lock_guard lock(last.mutex);
    last.sentence = of_this_thread;
  }
  if (comm) comm->keep_sentence(of_this_thread);
  return result_of(error);
}

std::string last_sentence() {
  if (!of_this_thread.empty()) return of_this_thread;
  LastOfAny& last = last_of_any();
  const std::lock_guard lock(last.mutex);
  return last.sentence;
}

void refuse(std::string why) { throw Error(ErrorCode::invalid_argument, std::move(why)); }
void refuse_to_use(std::string why) { throw Error(ErrorCode::unsupported, std::move(why)); }

}  // namespace ringwood::nccl
