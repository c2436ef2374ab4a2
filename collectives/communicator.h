// The public C++ interface: a group of ranks and the operations that they perform together.
//
//   auto met = ringwood::rendezvous("env://");
//   auto group = ringwood::Communicator::create(met.store, met.rank, met.size);
//   group->all_reduce(data, count, DataType::float32, ReduceOp::sum)->wait();
//
// Rules
// 1. Every rank calls the same collectives in the same order on one communicator (as MPI, NCCL).
//    Otherwise every rank gets Error(mismatch) that names who called what; no buffer is written.
// 2. Calls are asynchronous: they return an Operation at once. With CallOptions::synchronous the
//    calling thread carries the call out and returns it finished. Up to Options::in_flight
//    collectives are in flight at once. Those of normal priority begin in the order of their calls;
//    one of high priority begins at once, or after others like it, and goes first. Operations may
//    end in any order, but those that write each other's memory take effect in call order.
// 3. Buffers belong to the operation until it is done. Operations may share read-only ones.
// 4. Each operation has a deadline. When it passes, or a peer dies, the first error aborts the
//    communicator: every pending and later operation on every rank returns that error.
// 5. Communicators are independent: no links, threads or locks in common.
// 6. Any thread may call any method, in an order that the caller arranges; abort() at any moment,
//    also from a callback. After fork() the child's copy is dead: every call returns an error.
// 7. send and recv match by (peer, tag) in order; they are not ordered with the collectives.
// 8. Invalid arguments (null buffer, bad root, unsupported type or operation, bad rank) throw
//    Error(invalid_argument) at once and change nothing.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collectives/call.h"
#include "collectives/kernels/data_types.h"
#include "transports/base/error.h"
#include "transports/bootstrap/store.h"

namespace ringwood {

struct Candidate;       // tuner/candidate.h
enum class Collective;  // schedule/collective.h

class Communicator {
 public:
  // Collective over the store's ranks; throws Error naming the ranks that did not arrive. `store`
  // must be private to this group (prefix_store) or used for one communicator at a time. The first
  // form uses Options::from_environment() and the name "world".
  static std::unique_ptr<Communicator> create(std::shared_ptr<Store> store, int rank, int size);
  static std::unique_ptr<Communicator> create(std::shared_ptr<Store> store, int rank, int size,
                                              const Options& options,
                                              const std::string& name = "world");
  // Leaves the group, in at most 2 s; pending operations fail with aborted.
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
  // Blocks anywhere and of any size: out[r].count is rank r's in.count, the same on all ranks.
  virtual OperationPtr all_gather(ConstBlock in, std::vector<Block> out, DataType type,
                                  const CallOptions& call = {}) = 0;
  // in: size() blocks of `count`; out: one, may be in's own block.
  virtual OperationPtr reduce_scatter(const void* in, void* out, size_t count, DataType type,
                                      ReduceOp op, const CallOptions& call = {}) = 0;
  // Blocks anywhere and of any size: in[r].count is rank r's out.count, the same on all ranks.
  virtual OperationPtr reduce_scatter(std::vector<ConstBlock> in, Block out, DataType type,
                                      ReduceOp op, const CallOptions& call = {}) = 0;
  // in, out: size() blocks of `count`. All ranks use this form, which has more algorithms, or none.
  virtual OperationPtr all_to_all(const void* in, void* out, size_t count, DataType type,
                                  const CallOptions& call = {}) = 0;
  // in[p] goes to rank p, out[p] comes from it; counts agree pairwise, zero is allowed.
  virtual OperationPtr all_to_all(std::vector<ConstBlock> in, std::vector<Block> out, DataType type,
                                  const CallOptions& call = {}) = 0;
  // At the root only: `out` of gather and `in` of scatter, size() blocks (CallOptions::uneven).
  virtual OperationPtr gather(ConstBlock in, std::vector<Block> out, DataType type, int root,
                              const CallOptions& call = {}) = 0;
  virtual OperationPtr scatter(std::vector<ConstBlock> in, Block out, DataType type, int root,
                               const CallOptions& call = {}) = 0;
  virtual OperationPtr barrier(const CallOptions& call = {}) = 0;

  // send is done when the buffer may be reused. The `peer` of recv may be kAnySource.
  virtual OperationPtr send(const void* data, size_t count, DataType type, int peer, uint64_t tag,
                            const CallOptions& call = {}) = 0;
  virtual OperationPtr recv(void* data, size_t count, DataType type, int peer, uint64_t tag,
                            const CallOptions& call = {}) = 0;

  // Calls up to the matching group_end() form a group, the same on all ranks. Groups nest, and have
  // no calls of other threads. group_end() launches them in the order of the calls, small ones that
  // differ only in their buffers as one (calls/call_group.h); buffers of one group must not depend
  // on each other. Before that an operation cannot be waited for (invalid_argument); synchronous
  // calls are done when it returns; a call that cannot be launched then has that error.
  virtual void group_start() = 0;
  virtual void group_end() = 0;

  // Fails everything pending and later, on all ranks, with the error of the first abort that rank 0
  // hears of; returns when that is known here, within 5 s. Idempotent.
  virtual void abort(const std::string& reason) = 0;
  // Before the first call. Every thread that waits calls `check` a few times a second, without
  // locks held; a text that is not empty is the reason for an abort (Ctrl-C).
  virtual void set_interrupt_check(InterruptCheck check) = 0;
  // Finishes what is pending, notifies the peers, stops the threads. Later calls fail with aborted.
  virtual Status shutdown(std::chrono::milliseconds timeout = std::chrono::milliseconds(2000)) = 0;
  // The error with which this communicator ended, if it has.
  virtual Status health() const = 0;
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  // The choice for a call, past or future. `bytes`: of the whole buffer, or of one block.
  struct Choice {
    std::string algorithm;  // "ring"
    int segments = 1;
    std::string wire;             // between hosts: "float32", "bf16", "int8"
    std::string transports, why;  // in use: "shm", "shm+tcp"; "the tuning file says so"
    bool tuned = false;           // by a tuning file (RINGWOOD_TUNING_FILE)
  };
  virtual Choice choice(Collective collective, size_t bytes, DataType type, ReduceOp op) const = 0;
  // The table's rows, with predicted times here, and why they are not chosen. Takes milliseconds.
  virtual std::vector<Candidate> explain(Collective, size_t bytes, DataType = DataType::float32,
                                         ReduceOp = ReduceOp::sum) const = 0;
  virtual std::string transport_to(int peer) const = 0;
};

// A group of calls, as long as it is in scope.
class GroupOfCalls final {
 public:
  explicit GroupOfCalls(Communicator& group) : group_(group) { group_.group_start(); }
  ~GroupOfCalls() { group_.group_end(); }
  GroupOfCalls(const GroupOfCalls&) = delete;  // nor assigned, for its reference

 private:
  Communicator& group_;
};

}  // namespace ringwood
