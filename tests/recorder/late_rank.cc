// A job for tests of `ringwood trace`: all-reduces, before each of which one rank computes longer.
//
//   late_rank RENDEZVOUS BYTES CALLS RANK MILLISECONDS     RANK -1: none
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "collectives/communicator.h"

namespace {

// Ranks leave create() one after another, and plan their first call as fast as they have cores.
// None shall be late by that, and a barrier would be recorded.
void meet_again(ringwood::Store& store, int size) {
  store.add("ready", 1);
  while (store.add("ready", 0) < size) std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (store.add("left", 1) == size) {
    store.remove("ready");
    store.remove("left");
  }
  // Until the last one is there, where ranks outnumber cores.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ringwood;
  if (argc != 6) return 2;
  const auto met = rendezvous(argv[1]);
  const auto group = Communicator::create(met.store, met.rank, met.size);
  std::vector<float> numbers(std::strtoul(argv[2], nullptr, 10) / sizeof(float), 1);
  CallOptions call;
  call.synchronous = call.persistent = true;
  const auto sum =
      group->all_reduce(numbers.data(), numbers.size(), DataType::float32, ReduceOp::avg, call);
  const bool late = std::atoi(argv[4]) == met.rank;
  const std::chrono::milliseconds time(late ? std::atoi(argv[5]) : 0);
  meet_again(*met.store, met.size);
  for (int i = 0; i < std::atoi(argv[3]); ++i) {
    if (late) std::this_thread::sleep_for(time);
    if (const Status s = sum->start(); !s) return std::puts(s.error().what()), 1;
    if (const Status s = sum->wait(); !s) return std::puts(s.error().what()), 1;
  }
}
