// Children of a process that has a group: theirs is dead, and says so whatever its parent's threads
// were doing at the fork.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

bool told(const Status& s) {
  return !s.ok() && s.error().message().find("forked") != std::string::npos;
}

TEST(Forked, AChildIsToldThatTheGroupIsNotItsOwn) {
  run_ranks(1, [](Communicator&) {});
  auto store = memory_store();
  std::unique_ptr<Communicator> groups[2];
  std::thread other([&] { groups[1] = Communicator::create(store, 1, 2, options_for(1)); });
  groups[0] = Communicator::create(store, 0, 2, options_for(0));
  other.join();
  const pid_t pid = fork();
  if (pid == 0) {
    float x = 1;
    Status s = groups[0]->all_reduce(&x, 1, DataType::float32, ReduceOp::sum)->wait();
    const bool is_told = told(s);
    groups[0].reset();  // must neither hang nor disturb the parent
    _exit(is_told ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::thread peer([&] {
    float y = 1;
    must(groups[1]->all_reduce(&y, 1, DataType::float32, ReduceOp::sum));
  });
  float x = 1;
  must(groups[0]->all_reduce(&x, 1, DataType::float32, ReduceOp::sum));
  peer.join();
  EXPECT_EQ(x, 2);
}

bool told(const Error* error) {
  return error != nullptr && error->message().find("forked") != std::string::npos;
}

// Operations of the parent that have not ended call back in the child at once; those that have, as
// ever.
TEST(Forked, OperationsOfTheParentCallBackInAChild) {
  auto store = memory_store();
  std::unique_ptr<Communicator> groups[2];
  std::thread other([&] { groups[1] = Communicator::create(store, 1, 2, options_for(1)); });
  groups[0] = Communicator::create(store, 0, 2, options_for(0));
  other.join();
  Communicator& c = *groups[0];
  float x = 1, y = 1;
  const OperationPtr pending = c.recv(&x, 1, DataType::float32, 1, 7);
  CallOptions later;
  later.persistent = true;
  const OperationPtr ended = c.all_reduce(&y, 0, DataType::float32, ReduceOp::sum, later);
  must(ended->start());
  std::thread peer([&] { must(groups[1]->all_reduce(&y, 0, DataType::float32, ReduceOp::sum)); });
  must(ended->wait());
  peer.join();
  const pid_t pid = fork();
  if (pid == 0) {
    int calls = 0;
    const auto expect = [&](bool right) { calls += right ? 1 : 100; };
    pending->on_done([&](const Error* error) { expect(told(error)); });
    ended->on_done([&](const Error* error) { expect(error == nullptr); });
    _exit(calls == 2 ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::thread sender([&] {
    float z = 3;
    must(groups[1]->send(&z, 1, DataType::float32, 0, 7));
  });
  must(pending->wait());
  sender.join();
}

// Every call returns, although some thread of the parent holds the locks of the engine and of the
// plans nearly always.
void call_all(Communicator& c) {
  float x[4] = {}, y[4] = {};
  const auto type = DataType::float32;
  const auto must_be_told = [](const OperationPtr& op) {
    if (!told(op->wait())) _exit(1);
  };
  for (const bool synchronous : {false, true}) {
    CallOptions how;
    how.synchronous = synchronous;
    must_be_told(c.all_reduce(x, 3, type, ReduceOp::sum, how));
    must_be_told(c.all_gather(x, y, 2, type, how));
    must_be_told(c.all_gather({x, 2}, {{y, 2}, {y + 2, 2}}, type, how));
    must_be_told(c.all_to_all(x, y, 2, type, how));
    must_be_told(c.gather({x, 1}, {{y, 1}, {y + 2, 1}}, type, 0, how));
    must_be_told(c.barrier(how));
    must_be_told(c.send(x, 1, type, 1, 7, how));
  }
  {
    OperationPtr op;
    {
      GroupOfCalls group(c);
      op = c.all_reduce(x, 3, type, ReduceOp::sum);
    }
    must_be_told(op);
  }
  if (!told(c.health()) || !told(c.shutdown())) _exit(2);
  try {
    (void)c.choice(Collective::all_reduce, 16, type, ReduceOp::sum);
    _exit(3);
  } catch (const Error& error) {
    if (!told(error)) _exit(4);
  }
}

TEST(Forked, ChildrenAreToldWhateverTheirParentsThreadsDo) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow the fork of a process that has had threads";
#endif
  auto store = memory_store();
  std::unique_ptr<Communicator> groups[2];
  std::thread other([&] { groups[1] = Communicator::create(store, 1, 2, options_for(1)); });
  groups[0] = Communicator::create(store, 0, 2, options_for(0));
  other.join();
  std::atomic<bool> enough{false};
  std::vector<std::thread> busy;
  busy.emplace_back([&] {
    std::vector<float> x(64);
    for (size_t i = 0; !enough; ++i)  // plans come and go
      (void)groups[0]->choice(Collective::all_reduce, 4 * (1 + i % 5000), DataType::float32,
                              ReduceOp::sum);
  });
  for (int r : {0, 1})
    busy.emplace_back([&, r] {
      std::vector<float> x(4096);
      for (size_t i = 0; i < 40'000; ++i)
        must(groups[r]->all_reduce(x.data(), 1 + i % 4096, DataType::float32, ReduceOp::sum));
    });
  int hung = 0;
  for (int i = 0; i < 100 && hung == 0; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      call_all(*groups[0]);
      _exit(0);
    }
    int status = 0;
    const Deadline limit = patiently();
    while (waitpid(pid, &status, WNOHANG) == 0 && !limit.passed()) usleep(500);
    if (limit.passed()) {
      ++hung;
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << i << ": " << status;
  }
  EXPECT_EQ(hung, 0);
  enough = true;
  for (auto& thread : busy) thread.join();
}

}  // namespace
}  // namespace ringwood::testing
