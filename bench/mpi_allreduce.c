// MPI_Allreduce of float32, in place, sum: the contestant that any MPI brings. Started by
// bench/peers:
//   mpirun -n 2 mpi_allreduce 8,4096,1048576 plain,touched
#include <mpi.h>

#include "batches.h"

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void run(float* data, size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

// Each rank contributes rank + 1: a benchmark that adds wrongly is not a contestant.
static void check(float* data, int rank, int ranks, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = (float)(rank + 1);
  run(data, count);
  for (size_t i = 0; i < count; ++i) {
    if (data[i] == (float)(ranks * (ranks + 1) / 2)) continue;
    fprintf(stderr, "rank %d: element %zu is %g\n", rank, i, (double)data[i]);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    fprintf(stderr, "usage: mpi_allreduce SIZES MODES\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Contestant c = {barrier, run, slowest, 0, 1, NULL, 1};
  MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &c.ranks);
  pin_rank(c.rank, c.ranks);
  const size_t bytes = largest_size(argv[1]);
  float* data = aligned_alloc(4096, (bytes / 4096 + 1) * 4096);
  if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  check(data, c.rank, c.ranks, bytes / sizeof(float));
  measure_all(&c, argv[1], argv[2], data);
  free(data);
  MPI_Finalize();
  return 0;
}
