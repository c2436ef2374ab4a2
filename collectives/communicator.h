// The public C++ interface: a group of ranks and what they can do together.
//
//   auto r = ringwood::rendezvous("env://", -1, -1, deadline);
//   auto comm = ringwood::Communicator::create(r.store, r.rank, r.size);
//   Status s = comm->all_reduce(data, count, DataType::float32, ReduceOp::sum)->wait();
//
// Rules
//   1. Every rank calls the same collectives in the same order on one communicator (as MPI, NCCL).
//   A rank that
//      does not is found before any data moves: every rank gets Error(mismatch) naming who called
//      what, and no buffer has been written.
//   2. Calls are asynchronous: they return an Operation at once, unless CallOptions::synchronous,
//   which
//      carries the call out in the calling thread (no hand-over, no wake) and returns it finished.
//      Up to Options::in_flight collectives are under way at once. Those of normal priority begin
//      in the order of their calls. One of high priority passes them: it begins at once, or after
//      others of high priority, and goes first wherever both could go on. They may end in any
//      order; but those of one rank that write each other's memory take effect in the order of
//      their calls. With Options::in_flight 1 all are carried out one after the other.
//   3. Buffers belong to the operation until it is done. Read-only ones may be shared by
//   operations.
//   4. Each operation has a deadline. When it passes, or a peer dies, the first error aborts the
//   communicator:
//      every pending and later operation on every rank returns that error. Make a new one to go on.
//   5. Communicators are independent: no links, threads or locks in common; any number may be in
//   flight.
//   6. Any thread may call any method; order between threads is the caller's to arrange. abort()
//   may be called at
//      any moment, also from a callback. After fork() the child's copy is dead: every call returns
//      an error.
//   7. send/recv match by (peer, tag) in order; they are not ordered with the collectives.
// Caller's mistakes (null buffer, bad root, unsupported dtype/op, bad rank) throw
// Error(invalid_argument) at once and change nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/call.h"
#include "collectives/choice/cost_candidates.h"
#include "collectives/kernels/reduce.h"
#include "collectives/schedule/schedule.h"
#include "transports/base/error.h"
#include "transports/base/options.h"
#include "transports/bootstrap/store.h"

namespace ringwood {

class Communicator {
 public:
  // Collective over the store's ranks; throws Error naming the ranks that did not come. `store`
  // must be private to this group (prefix_store) or used for one communicator at a time; several
  // generations may follow each other.
  static std::unique_ptr<Communicator> create(std::shared_ptr<Store> store, int rank, int size,
                                              const Options& options = Options::from_environment(),
                                              const std::string& name = "world");
  // Leaves: finished operations stay finished, pending ones fail with aborted. At most 2 s.
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  virtual OperationPtr all_reduce(void* data, size_t count, DataType type, ReduceOp op,
                                  const CallOptions& call = {}) = 0;
  // Only the root's buffer changes.
  virtual OperationPtr reduce(void* data, size_t count, DataType type, ReduceOp op, int root,
                              const CallOptions& call = {}) = 0;
  virtual OperationPtr broadcast(void* data, size_t count, DataType type, int root,
                                 const CallOptions& call = {}) = 0;
  // out: size() blocks of `count`. `in` may be out's own block.
  virtual OperationPtr all_gather(const void* in, void* out, size_t count, DataType type,
                                  const CallOptions& call = {}) = 0;
  // Blocks anywhere and of any size (out[r].count = rank r's in.count; all ranks give the same
  // counts).
  virtual OperationPtr all_gather(ConstBlock in, std::vector<Block> out, DataType type,
                                  const CallOptions& call = {}) = 0;
  // in: size() blocks of `count`; out: one, may be in's own block.
  virtual OperationPtr reduce_scatter(const void* in, void* out, size_t count, DataType type,
                                      ReduceOp op, const CallOptions& call = {}) = 0;
  // Blocks anywhere and of any size (in[r].count = rank r's out.count; all ranks give the same
  // counts).
  virtual OperationPtr reduce_scatter(std::vector<ConstBlock> in, Block out, DataType type,
                                      ReduceOp op, const CallOptions& call = {}) = 0;
  // in, out: size() blocks of `count`. All ranks call this form, which has more algorithms than the
  // other.
  virtual OperationPtr all_to_all(const void* in, void* out, size_t count, DataType type,
                                  const CallOptions& call = {}) = 0;
  // in[p] goes to rank p, out[p] comes from it; counts agree pairwise, zero is allowed.
  virtual OperationPtr all_to_all(std::vector<ConstBlock> in, std::vector<Block> out, DataType type,
                                  const CallOptions& call = {}) = 0;
  // out is used at the root only (size() blocks), in[] of scatter likewise. Blocks are of one size,
  // or CallOptions::uneven.
  virtual OperationPtr gather(ConstBlock in, std::vector<Block> out, DataType type, int root,
                              const CallOptions& call = {}) = 0;
  virtual OperationPtr scatter(std::vector<ConstBlock> in, Block out, DataType type, int root,
                               const CallOptions& call = {}) = 0;
  virtual OperationPtr barrier(const CallOptions& call = {}) = 0;

  // Done when the buffer may be used again, which up to a limit (point_to_point.h) is before its
  // receive is made.
  virtual OperationPtr send(const void* data, size_t count, DataType type, int peer, uint64_t tag,
                            const CallOptions& call = {}) = 0;
  // peer may be kAnySource.
  virtual OperationPtr recv(void* data, size_t count, DataType type, int peer, uint64_t tag,
                            const CallOptions& call = {}) = 0;

  // Calls up to the matching group_end() are a group: none of them begins before its end, which
  // launches them in the order of the calls. Those of all_reduce, reduce and broadcast, and of
  // all_gather and reduce_scatter with blocks of one size, that are small (ProtocolLimits::packed)
  // and alike but for their buffers are carried out as one, in the place of the first: they end
  // together and have its sequence number. 100 sums of 64 B between 2 ranks take 15 us instead of
  // 55 over shm, 45 instead of 2000 over tcp.
  // Buffers of one group must not depend on each other. All ranks make the same groups. Groups
  // nest, as with ncclGroupStart(); every thread's calls belong to the one that is open.
  // Synchronous calls are done when group_end() returns. Before it an operation cannot be waited
  // for (invalid_argument); a call that then cannot be launched has that error.
  virtual void group_start() = 0;
  virtual void group_end() = 0;

  // Fails everything pending and later, here and on all ranks. Idempotent.
  virtual void abort(const std::string& reason) = 0;
  // Is asked a few times a second by every thread that has to wait for an operation, without locks
  // held; a text that is not empty is a reason to abort. For what may end a wait from outside, such
  // as Ctrl-C. Before the first call.
  virtual void set_interrupt_check(InterruptCheck check) = 0;
  // Finishes what is pending (until the timeout), says goodbye, stops the threads. Later calls fail
  // with aborted.
  virtual Status shutdown(std::chrono::milliseconds timeout = std::chrono::milliseconds(2000)) = 0;
  // The error that ended this communicator, if one did.
  virtual Status health() const = 0;
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  // What would be (or was) chosen: "ring", segments, and the transports in use, "shm" or "shm+tcp".
  struct Choice {
    std::string algorithm;
    int segments = 1;
    std::string wire;  // "bf16", "int8": how numbers travel between hosts; else "float32"
    std::string transports;
  };
  virtual Choice choice(Collective collective, size_t bytes, DataType type, ReduceOp op) const = 0;
  // Every row of the table, with its predicted time in this group, and why it is not chosen; in the
  // table's order (print() in choose.h sorts it). `bytes` as in choice(): of the whole buffer, or
  // of one block. Computed anew at each call: milliseconds.
  virtual std::vector<Candidate> explain(Collective collective, size_t bytes,
                                         DataType type = DataType::float32,
                                         ReduceOp op = ReduceOp::sum) const = 0;
  virtual std::string transport_to(int peer) const = 0;
};

// A group of calls, as long as it is in scope.
class GroupOfCalls final {
 public:
  explicit GroupOfCalls(Communicator& communicator) : communicator_(communicator) {
    communicator_.group_start();
  }
  ~GroupOfCalls() { communicator_.group_end(); }
  GroupOfCalls(const GroupOfCalls&) = delete;
  GroupOfCalls& operator=(const GroupOfCalls&) = delete;

 private:
  Communicator& communicator_;
};

}  // namespace ringwood
