#include "collectives/nccl/thread_group.h"

#include <utility>

namespace ringwood::nccl {
namespace {

void make(Making& making, std::unique_ptr<Error>& failed) {
  try {
    if (making.make(*making.comm)) {
      making.comm->ready = true;
      return;
    }
  } catch (...) {
    failed = std::make_unique<Error>(caught_error());
  }
  retire(making.comm);
  *making.handle = nullptr;
}

// Also those that could be made have no use where one could not.
void make_all(std::vector<Making>& makings) {
  std::vector<std::unique_ptr<Error>> errors(makings.size());
  in_threads(makings.size(), [&](size_t i) { make(makings[i], errors[i]); });
  for (const auto& error : errors)
    if (error) throw Error(*error);
}

}  // namespace

ThreadGroup& ThreadGroup::of_this_thread() {
  thread_local ThreadGroup group;
  return group;
}

void ThreadGroup::end() {
  if (depth_ == 0) refuse_to_use("ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return;
  carry_out();
}

void ThreadGroup::drop() {
  if (depth_ > 0) --depth_;
  for (const Making& making : std::exchange(makings_, {})) {
    retire(making.comm);
    *making.handle = nullptr;
  }
  calls_.clear();
  failed_.reset();
}

void ThreadGroup::add(Making making) {
  makings_.push_back(std::move(making));
  if (depth_ == 0) carry_out();
}

void ThreadGroup::add(Call call) {
  calls_.push_back(std::move(call));
  if (depth_ == 0) carry_out();
}

void ThreadGroup::fail(const Error& error) {
  if (depth_ > 0 && !failed_) failed_ = std::make_unique<Error>(error);
}

void ThreadGroup::carry_out() {
  // What is carried out may end by an exception; nothing is left for the next group.
  std::vector<Making> makings = std::exchange(makings_, {});
  const std::vector<Call> calls = std::exchange(calls_, {});
  if (const auto failed = std::exchange(failed_, nullptr)) {
    for (const Making& making : makings) {
      retire(making.comm);
      *making.handle = nullptr;
    }
    throw Error(*failed);
  }
  make_all(makings);
  for (const Call& call : calls) (void)call.comm->usable();
  launch(calls);
}

}  // namespace ringwood::nccl
