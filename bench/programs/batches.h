// How every C contestant measures: batches of about 2 ms, each taken from its slowest rank; best
// and median of seven. The same rules as `ringwood perf` (tools/perf/perf_trial.cc) and
// torch_allreduce.py, so that the figures compare.
#pragma once

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 7, kWarmup = 5, kMaxIterations = 20000 };
static const double kBatchSeconds = 2e-3;

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Rank i on the i-th core that may be used, where there is one for each.
static void pin_rank(int rank, int ranks) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < ranks) return;
  for (int core = 0, seen = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set) || seen++ != rank) continue;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
    return;
  }
}

// An element of each cache line, as an application would at least.
static void read_lines(const float* data, size_t bytes) {
  const volatile float* element = data;
  for (size_t at = 0; at < bytes / sizeof(float); at += 16) (void)element[at];
}

// One contestant: how it meets, works, and finds the slowest rank's time.
typedef struct {
  void (*barrier)(void);
  void (*run)(float* data, size_t count);
  double (*slowest)(double seconds);
  int rank, ranks;
  // Where the result lies if not in `data`, and how many of it make up the size that is measured.
  const float* result;
  int results;
} Contestant;

static double batch_seconds(const Contestant* c, float* data, size_t bytes, int iterations,
                            int touch) {
  const size_t count = bytes / sizeof(float);
  double sum = 0;
  if (!touch) {
    c->barrier();
    const double start = now_seconds();
    for (int i = 0; i < iterations; ++i) c->run(data, count);
    return now_seconds() - start;
  }
  for (int i = 0; i < iterations; ++i) {
    memset(data, 0, bytes);
    c->barrier();
    const double start = now_seconds();
    c->run(data, count);
    read_lines(c->result ? c->result : data, c->result ? bytes / (size_t)c->results : bytes);
    sum += now_seconds() - start;
  }
  return sum;
}

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure_size(const Contestant* c, float* data, size_t bytes, const char* mode,
                         int touch) {
  double times[kBatches];
  int iterations = 1;
  memset(data, 0, bytes);
  for (int i = 0; i < kWarmup; ++i) c->run(data, bytes / sizeof(float));
  for (;; iterations *= 2) {
    const double seconds = c->slowest(batch_seconds(c, data, bytes, iterations, touch));
    if (seconds < kBatchSeconds / 8 && iterations < kMaxIterations) continue;
    iterations = (int)(kBatchSeconds / seconds * iterations);
    if (iterations < 1) iterations = 1;
    if (iterations > kMaxIterations) iterations = kMaxIterations;
    break;
  }
  for (int b = 0; b < kBatches; ++b) times[b] = batch_seconds(c, data, bytes, iterations, touch);
  for (int b = 0; b < kBatches; ++b) times[b] = c->slowest(times[b]);
  qsort(times, kBatches, sizeof times[0], compare_doubles);
  if (c->rank != 0) return;
  printf("{\"mode\": \"%s\", \"bytes\": %zu, \"best_us\": %.4f, \"median_us\": %.4f}\n", mode,
         bytes, times[0] / iterations * 1e6, times[kBatches / 2] / iterations * 1e6);
  fflush(stdout);
}

// "8,64,4096" for each of "plain,touched". `data` has room for the largest size.
static void measure_all(const Contestant* c, const char* sizes, const char* modes, float* data) {
  for (int touch = 0; touch < 2; ++touch) {
    const char* mode = touch ? "touched" : "plain";
    if (strstr(modes, mode) == NULL) continue;
    for (const char* at = sizes; *at != '\0';) {
      char* end;
      const size_t bytes = strtoull(at, &end, 10);
      measure_size(c, data, bytes, mode, touch);
      at = *end == ',' ? end + 1 : end;
    }
  }
}

static size_t largest_size(const char* sizes) {
  size_t largest = 0;
  for (const char* at = sizes; *at != '\0';) {
    char* end;
    const size_t bytes = strtoull(at, &end, 10);
    if (end == at) {
      fprintf(stderr, "sizes: \"%s\" is not a list of numbers\n", sizes);
      exit(2);
    }
    if (bytes > largest) largest = bytes;
    at = *end == ',' ? end + 1 : end;
  }
  return largest;
}
