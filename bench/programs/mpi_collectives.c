// One collective of MPI on float32, by the rules of batches.h: the contestant that any MPI brings.
// Started by bench/peers and bench/collectives:
//   mpirun -n 2 mpi_collectives 8,4096,1048576 plain,touched all_reduce
#include <mpi.h>

#include "collective_rows.h"

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

static void all_reduce(float* data, size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_gather(float* data, size_t count) {
  const int block = (int)(count / (size_t)ranks);
  MPI_Allgather(data, block, MPI_FLOAT, other, block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(float* data, size_t count) {
  const int block = (int)(count / (size_t)ranks);
  MPI_Reduce_scatter_block(data, other, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_to_all(float* data, size_t count) {
  const int block = (int)(count / (size_t)ranks);
  MPI_Alltoall(data, block, MPI_FLOAT, other, block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast(float* data, size_t count) {
  MPI_Bcast(data, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const Bootstrap bootstrap = {barrier, slowest};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int status = measure_collective(argc, argv, &bootstrap);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
