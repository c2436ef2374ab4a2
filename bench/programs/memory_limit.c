// What the machine can do at most: the memory traffic of an all-reduce without any synchronisation.
//
// Every rank's buffer is shared. Rank r reads slice r of all buffers, adds, and writes it to all
// buffers: 2S bytes per rank for a vector of S, less than any all-reduce of private buffers. No
// rank waits for another within a batch, so the sums are not meant to be right; the time is a lower
// bound. Started by bench/peers:
//   memory_limit 2 8,4096,1048576 plain,touched
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batches.h"

enum { kMaxRanks = 64 };

// A cache line of floats, at any address.
typedef float Line __attribute__((vector_size(64), aligned(4), may_alias));

typedef struct {
  atomic_int arrived[2], phase;
  double seconds[kMaxRanks];
} Shared;

static Shared* shared;
static float* buffers[kMaxRanks];
static int my_rank, all_ranks;

static void barrier(void) {
  const int phase = atomic_load(&shared->phase);
  if (atomic_fetch_add(&shared->arrived[phase & 1], 1) == all_ranks - 1) {
    atomic_store(&shared->arrived[phase & 1], 0);
    atomic_store(&shared->phase, phase + 1);
    return;
  }
  for (int spins = 0; atomic_load(&shared->phase) == phase; ++spins) {
    if (spins > 1000) sched_yield();
  }
}

// One pass over all buffers, with the sums in registers; compiled anew for each constant `ranks`.
static inline __attribute__((always_inline)) void add_slices(int ranks, size_t at, size_t end) {
  enum { kFloats = sizeof(Line) / sizeof(float) };
  float* all[kMaxRanks];
  for (int r = 0; r < ranks; ++r) all[r] = buffers[r];
  for (; at + kFloats <= end; at += kFloats) {
    Line sum = *(const Line*)(all[0] + at);
    for (int r = 1; r < ranks; ++r) sum += *(const Line*)(all[r] + at);
    for (int r = 0; r < ranks; ++r) *(Line*)(all[r] + at) = sum;
  }
  for (; at < end; ++at) {
    float sum = all[0][at];
    for (int r = 1; r < ranks; ++r) sum += all[r][at];
    for (int r = 0; r < ranks; ++r) all[r][at] = sum;
  }
}

static void run(float* unused, size_t count) {
  (void)unused;
  const size_t begin = count * (size_t)my_rank / (size_t)all_ranks;
  const size_t end = count * (size_t)(my_rank + 1) / (size_t)all_ranks;
  switch (all_ranks) {
    case 2: return add_slices(2, begin, end);
    case 4: return add_slices(4, begin, end);
    default: return add_slices(all_ranks, begin, end);
  }
}

static double slowest(double seconds) {
  shared->seconds[my_rank] = seconds;
  barrier();
  for (int r = 0; r < all_ranks; ++r) {
    if (shared->seconds[r] > seconds) seconds = shared->seconds[r];
  }
  barrier();  // nobody writes the next time before all have read this one
  return seconds;
}

// The least time in which two cores can know of each other: one barrier.
static void measure_barrier(void) {
  enum { kTimes = 10000 };
  double best = 1;
  for (int batch = 0; batch < kBatches; ++batch) {
    barrier();
    const double start = now_seconds();
    for (int i = 0; i < kTimes; ++i) barrier();
    const double seconds = slowest(now_seconds() - start) / kTimes;
    if (seconds < best) best = seconds;
  }
  if (my_rank == 0)
    printf("{\"mode\": \"barrier\", \"bytes\": 0, \"best_us\": %.4f, \"median_us\": %.4f}\n",
           best * 1e6, best * 1e6);
}

static void copy_half(float* data, size_t count) {
  memcpy(data + count / 2, data, count / 2 * sizeof(float));
}

// The bytes that memcpy moves while every rank does: half of its buffer to the other half.
static void measure_copy(const Contestant* c, float* data, size_t bytes) {
  Contestant copying = *c;
  copying.run = copy_half;
  measure_size(&copying, data, bytes, "memcpy", 0);
}

static void* map_shared(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return memory;
  perror("mmap");
  exit(1);
}

int main(int argc, char** argv) {
  all_ranks = argc == 4 ? atoi(argv[1]) : 0;
  if (all_ranks < 1 || all_ranks > kMaxRanks) {
    fprintf(stderr, "usage: memory_limit RANKS SIZES MODES\n");
    return 2;
  }
  const size_t bytes = largest_size(argv[2]);
  shared = map_shared(sizeof(Shared));
  for (int r = 0; r < all_ranks; ++r) buffers[r] = map_shared(bytes);
  for (my_rank = all_ranks - 1; my_rank > 0; --my_rank) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    break;
  }
  pin_rank(my_rank, all_ranks);
  const Contestant c = {barrier, run, slowest, my_rank, all_ranks};
  measure_barrier();
  measure_copy(&c, buffers[my_rank], bytes);
  measure_all(&c, argv[2], argv[3], buffers[my_rank]);
  if (my_rank > 0) return 0;
  while (wait(NULL) > 0) {
  }
  return 0;
}
