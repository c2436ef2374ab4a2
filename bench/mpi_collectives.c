// One collective of MPI on float32, by the rules of batches.h. Sizes are those of the whole buffer,
// for all but broadcast that of one block for each rank. Started by bench/collectives:
//   mpirun -n 2 mpi_collectives 262144,1048576 touched all_gather
#include <mpi.h>

#include "batches.h"

typedef void (*Run)(float* data, size_t count);

static int ranks, rank;
static float* other;  // the second buffer, as large as the first

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
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

// What element i of the result must be where every rank's element i is 1000 (rank + 1) + i % 7.
static float gathered(size_t i, size_t block) {
  return 1000 * (float)(i / block + 1) + (float)(i % block % 7);
}
static float reduced(size_t i, size_t block) {
  return 1000 * (float)(ranks * (ranks + 1) / 2) +
         (float)ranks * (float)(((size_t)rank * block + i) % 7);
}
static float exchanged(size_t i, size_t block) {
  return 1000 * (float)(i / block + 1) + (float)(((size_t)rank * block + i % block) % 7);
}
static float sent(size_t i, size_t block) {
  (void)block;
  return 1000 + (float)(i % 7);
}

typedef struct {
  const char* name;
  Run run;
  float (*expected)(size_t i, size_t block);
  int in_place, one_block;  // of the result
} Row;
static const Row kRows[] = {
    {"all_gather", all_gather, gathered, 0, 0},
    {"reduce_scatter", reduce_scatter, reduced, 0, 1},
    {"all_to_all", all_to_all, exchanged, 0, 0},
    {"broadcast", broadcast, sent, 1, 0},
};

static const Row* find_row(const char* name) {
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; ++i)
    if (strcmp(kRows[i].name, name) == 0) return &kRows[i];
  return NULL;
}

// A benchmark that gives wrong results is not a contestant.
static void check(const Row* row, float* data, size_t count) {
  const size_t block = count / (size_t)ranks;
  for (size_t i = 0; i < count; ++i) data[i] = 1000 * (float)(rank + 1) + (float)(i % 7);
  row->run(data, count);
  const float* result = row->in_place ? data : other;
  for (size_t i = 0; i < (row->one_block ? block : count); ++i) {
    if (result[i] == row->expected(i, block)) continue;
    fprintf(stderr, "rank %d: element %zu of %s is %g, not %g\n", rank, i, row->name,
            (double)result[i], (double)row->expected(i, block));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static float* buffer(size_t bytes) {
  float* data = aligned_alloc(4096, (bytes / 4096 + 1) * 4096);
  if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  memset(data, 0, bytes);
  return data;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Row* row = argc == 4 ? find_row(argv[3]) : NULL;
  if (row == NULL) {
    fprintf(stderr, "usage: mpi_collectives SIZES MODES all_gather|reduce_scatter|...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  pin_rank(rank, ranks);
  const size_t bytes = largest_size(argv[1]);
  float* data = buffer(bytes);
  other = buffer(bytes);
  const Contestant c = {barrier,
                        row->run,
                        slowest,
                        rank,
                        ranks,
                        row->in_place ? NULL : other,
                        row->one_block ? ranks : 1};
  check(row, data, bytes / sizeof(float) / (size_t)ranks * (size_t)ranks);
  measure_all(&c, argv[1], argv[2], data);
  free(data);
  free(other);
  MPI_Finalize();
  return 0;
}
