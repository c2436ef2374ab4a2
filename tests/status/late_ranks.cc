// A job to be watched: the same all-reduce again and again, with a rank that comes late to each.
//
//   late_ranks URL RANK SIZE SECONDS BYTES LATE_RANK LATE_US     LATE_RANK -1: nobody
//
// SIGTERM to rank 0 ends all of them, as the end of the seconds does: after an operation.
// Rank 0 prints the number of operations and their mean time in microseconds.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "transports/bootstrap/store.h"

namespace {
volatile std::sig_atomic_t told_to_end = 0;
}

int main(int argc, char** argv) {
  using namespace ringwood;
  if (argc != 8)
    return std::fputs("late_ranks URL RANK SIZE SECONDS BYTES LATE_RANK LATE_US\n", stderr), 2;
  std::signal(SIGTERM, [](int) { told_to_end = 1; });
  const int rank = std::atoi(argv[2]), late = std::atoi(argv[6]);
  const double seconds = std::atof(argv[4]);
  const std::chrono::microseconds pause(std::atoi(argv[7]));
  const auto met = rendezvous(argv[1], rank, std::atoi(argv[3]));
  const auto group = Communicator::create(met.store, met.rank, met.size);
  std::vector<float> numbers(std::strtoull(argv[5], nullptr, 10) / sizeof(float) + 1);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  uint64_t operations = 0;
  for (bool over = false; !over; ++operations) {
    if (rank == late) std::this_thread::sleep_for(pause);
    // The others hear from rank 0 that it is over.
    std::fill(numbers.begin(), numbers.end(), 0.0f);
    if (rank == 0 && (told_to_end || elapsed() >= seconds)) numbers[0] = 1;
    const Status done =
        group->all_reduce(numbers.data(), numbers.size(), DataType::float32, ReduceOp::sum)->wait();
    if (!done) return std::fprintf(stderr, "%s\n", done.error().what()), 1;
    over = numbers[0] > 0;
  }
  if (rank == 0)
    std::printf("%llu %.3f\n", static_cast<unsigned long long>(operations),
                elapsed() * 1e6 / static_cast<double>(operations));
}
