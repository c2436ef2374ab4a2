// The sum of the numbers of all ranks: a program outside of Ringwood's tree, with whatever launcher
// sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or Open MPI's, MPICH's or Slurm's names.
//   c++ hello.cc -o hello $(pkg-config --cflags --libs ringwood)
//   torchrun --no-python --nproc-per-node 2 ./hello
#include <ringwood/communicator.h>

#include <cstdio>

int main() {
  using namespace ringwood;
  const auto met = rendezvous("env://");
  const auto group = Communicator::create(met.store, met.rank, met.size);
  float numbers[] = {1, 10.0f * met.rank};
  const Status done = group->all_reduce(numbers, 2, DataType::float32, ReduceOp::sum)->wait();
  if (!done) return std::puts(done.error().what()), 1;
  std::printf("rank %d of %d: %g and %g\n", met.rank, met.size, numbers[0], numbers[1]);
}
