/* A tuner of one's own, in C or C++: a shared library that chooses the algorithm of a call in place
 * of the tuning file and of the prediction.
 *
 *   cc -shared -fPIC my_tuner.c -o libmy_tuner.so $(pkg-config --cflags ringwood)
 *   RINGWOOD_TUNER=$PWD/libmy_tuner.so torchrun ...
 *
 * The library has one function, ringwood_tuner_v1(), which returns a table of functions; a C++
 * program may give the table itself (Options::tuner_plugin). An example is
 * collectives/examples/csv_tuner.cc.
 *
 * Rules
 * 1. Every rank loads the same library. choose() must give the same answer to the same query on
 *    every rank. If ranks choose differently, the group ends with an error that names two of them,
 *    before any data has moved.
 * 2. Who decides, in this order: 1. what the call names, 2. RINGWOOD_ALGORITHM, 3. this tuner, 4. a
 *    tuning file, 5. the prediction. If choose() returns 0, 4 and 5 decide; also where results must
 *    be reproducible (RINGWOOD_REPRODUCIBLE).
 * 3. choose() may be called by several threads at once and must be fast: a call waits for it.
 *    Answers are cached: it may not be asked again for the same query.
 * 4. An unknown algorithm, or one that does not fit the ranks, is logged once; then 4 and 5 decide.
 *
 * Functions must not throw. Strings are valid during the call only.
 */
#ifndef RINGWOOD_TUNER_PLUGIN_H
#define RINGWOOD_TUNER_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGWOOD_TUNER_VERSION 1

struct ringwood_tuner_group {
  int ranks;
  /* hosts[r]: number of rank r's host. The host of rank 0 is 0, the next new one 1, and so on. */
  const int* hosts;
  const int* nodes; /* by rank: its memory node, numbered likewise */
};

struct ringwood_tuner_query {
  const char* collective; /* "all_reduce", as `ringwood algorithms` lists them */
  const char* type;       /* "float32" */
  const char* op;         /* "sum" */
  /* Of the whole buffer, or of one block; uneven: their mean, or 0 if only pairs know the sizes. */
  uint64_t bytes;
  int root;
  int uneven;       /* 1: the blocks differ */
  double tolerance; /* largest relative error allowed in sums between hosts; 0: exact */
};

struct ringwood_tuner_choice {
  char algorithm[64];
  int segments; /* 0: the library chooses the number for this algorithm */
};

struct ringwood_tuner {
  int version;      /* RINGWOOD_TUNER_VERSION */
  const char* name; /* for logs and for `ringwood explain` */
  /* Called once for each group; returns its state. To refuse the group, return NULL and write the
   * reason into `why`. The pointer itself may be NULL. */
  void* (*begin)(const struct ringwood_tuner_group* group, char* why, size_t why_bytes);
  /* 1: `choice` is filled in; 0: no answer. */
  int (*choose)(void* state, const struct ringwood_tuner_query* query,
                struct ringwood_tuner_choice* choice);
  void (*end)(void* state); /* may be NULL */
};

/* What a library exports. */
const struct ringwood_tuner* ringwood_tuner_v1(void);

#ifdef __cplusplus
}
#endif

#endif
