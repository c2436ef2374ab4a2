// What an ncclUniqueId is: where the store of a group is served, and the name of its part there.
//
//   bytes 0..3  "RWNC"   4 version   5 who serves   6..7 port   8..23 session   24..127 host
//
// The session is random, and every key of the group begins with it: who does not know the id cannot
// find the group's keys, which the store does not list. RINGWOOD_KEY_FILE also keeps strangers from
// the store itself (transports/bootstrap/store.h).
//
// Thread safety: all functions. Errors: thrown. In a child of fork() the store of its parent is
// reached as that of any other process.
#pragma once

#include <memory>
#include <string>

#include "collectives/nccl/nccl.h"
#include "transports/base/options.h"
#include "transports/bootstrap/store.h"

namespace ringwood::nccl {

// Serves a store to the end of the process, or until forget(); not if NCCL_COMM_ID names a place
// for rank 0.
ncclUniqueId make_id(const Options& options);
// The group's part of the store.
std::shared_ptr<Store> store_of(const ncclUniqueId& id, int rank, const Options& options);
// The store is now kept by those who use it.
void forget(const ncclUniqueId& id);
// The session in hexadecimal digits. Throws where the bytes are not an id of this library.
std::string session_of(const ncclUniqueId& id);

}  // namespace ringwood::nccl
