// What a C or C++ program that measures one collective on float32 needs beside batches.h: what each
// collective has to give, a check of it, and the measurement. Sizes are those of the whole buffer,
// for all but all-reduce and broadcast that of one block for each rank. The program defines the
// calls that are declared here.
#pragma once

#include "batches.h"

typedef void (*Run)(float* data, size_t count);

static int ranks, rank;
static float* other;  // the second buffer, as large as the first

// What element i of the result must be where every rank's element i is 1000 (rank + 1) + i % 7.
static float added(size_t i, size_t block) {
  (void)block;
  return 1000 * (float)(ranks * (ranks + 1) / 2) + (float)ranks * (float)(i % 7);
}
static float gathered(size_t i, size_t block) {
  return 1000 * (float)(i / block + 1) + (float)(i % block % 7);
}
static float reduced(size_t i, size_t block) { return added((size_t)rank * block + i, block); }
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

static void all_reduce(float* data, size_t count);
static void all_gather(float* data, size_t count);
static void reduce_scatter(float* data, size_t count);
static void all_to_all(float* data, size_t count);
static void broadcast(float* data, size_t count);

static const Row kRows[] = {
    {"all_reduce", all_reduce, added, 1, 0},
    {"all_gather", all_gather, gathered, 0, 0},
    {"reduce_scatter", reduce_scatter, reduced, 0, 1},
    {"all_to_all", all_to_all, exchanged, 0, 0},
    {"broadcast", broadcast, sent, 1, 0},
};

// How the ranks of a library meet, and find the slowest one's time.
typedef struct {
  void (*barrier)(void);
  double (*slowest)(double seconds);
} Bootstrap;

// Whether the row gives the right result: a benchmark that does not is no contestant.
static int right(const Row* row, float* data, size_t count) {
  const size_t block = count / (size_t)ranks;
  for (size_t i = 0; i < count; ++i) data[i] = 1000 * (float)(rank + 1) + (float)(i % 7);
  row->run(data, count);
  const float* result = row->in_place ? data : other;
  for (size_t i = 0; i < (row->one_block ? block : count); ++i) {
    if (result[i] == row->expected(i, block)) continue;
    fprintf(stderr, "rank %d: element %zu of %s is %g, not %g\n", rank, i, row->name,
            (double)result[i], (double)row->expected(i, block));
    return 0;
  }
  return 1;
}

static int all_right(const Row* row, float* data, const char* sizes) {
  for (const char* at = sizes; *at != '\0';) {
    char* end;
    const size_t count = strtoull(at, &end, 10) / sizeof(float);
    if (!right(row, data, row->in_place ? count : count / (size_t)ranks * (size_t)ranks)) return 0;
    at = *end == ',' ? end + 1 : end;
  }
  return 1;
}

static float* buffer(size_t bytes) {
  float* data = (float*)aligned_alloc(4096, (bytes / 4096 + 1) * 4096);
  if (data != NULL) memset(data, 0, bytes);
  return data;
}

// PROGRAM SIZES MODES COLLECTIVE. The exit code; what went wrong is told. `ranks` and `rank` stand.
static int measure_collective(int argc, char** argv, const Bootstrap* bootstrap) {
  const Row* row = NULL;
  for (size_t i = 0; argc == 4 && i < sizeof kRows / sizeof *kRows; ++i)
    if (strcmp(kRows[i].name, argv[3]) == 0) row = &kRows[i];
  if (row == NULL) {
    fprintf(stderr, "usage: %s SIZES MODES all_reduce|all_gather|...\n", argv[0]);
    return 2;
  }
  pin_rank(rank, ranks);
  const size_t bytes = largest_size(argv[1]);
  float* data = buffer(bytes);
  other = buffer(bytes);
  const int failed = data == NULL || other == NULL || !all_right(row, data, argv[1]);
  if (!failed) {
    const Contestant c = {bootstrap->barrier,
                          row->run,
                          bootstrap->slowest,
                          rank,
                          ranks,
                          row->in_place ? NULL : other,
                          row->one_block ? ranks : 1};
    measure_all(&c, argv[1], argv[2], data);
  }
  free(data);
  free(other);
  return failed;
}
