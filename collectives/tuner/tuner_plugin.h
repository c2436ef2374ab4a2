/* A tuner of one's own, in C or C++: a shared library that chooses the algorithm of a call in place
 * of the tuning file and of the prediction.
 *
 *   cc -shared -fPIC my_tuner.c -o libmy_tuner.so $(pkg-config --cflags ringwood)
 *   RINGWOOD_TUNER=$PWD/libmy_tuner.so torchrun ...
 *
 * The library has one function, ringwood_tuner_v1(), which returns a table of functions; a C++
 * program may give the table itself (Options::tuner_plugin). csv_tuner.cc is an example.
 *
 * Rules
 * 1. All ranks load it, and must be given the same: choose() is to return the same for the same
 *    query on every rank. A rank that differs ends the group with an error that names both, before
 *    any data has moved.
 * 2. What a call or RINGWOOD_ALGORITHM names goes before it; where choose() returns 0, a tuning
 *    file, and then the prediction, decide.
 * 3. choose() may be called by any thread, by several at once, and returns at once: a call waits
 *    for it. Answers are remembered.
 * 4. A name that is not an algorithm of the collective, or does not accept the ranks, is said in
 *    the log once, and the choice is made without it.
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
  const int* hosts; /* by rank, numbered from 0 in the order of the hosts' first ranks */
  const int* nodes; /* by rank: its memory node, numbered likewise */
};

struct ringwood_tuner_query {
  const char* collective; /* "all_reduce", as `ringwood algorithms` lists them */
  const char* type;       /* "float32" */
  const char* op;         /* "sum" */
  uint64_t bytes;         /* of the whole buffer, or of one block; uneven: their mean */
  int root;
  int uneven;       /* 1: the blocks differ */
  double tolerance; /* of the relative error that sums between hosts may have; 0: exact */
};

struct ringwood_tuner_choice {
  char algorithm[64];
  int segments; /* 0: as the prediction says for this algorithm */
};

struct ringwood_tuner {
  int version;      /* RINGWOOD_TUNER_VERSION */
  const char* name; /* for logs and for `ringwood explain` */
  /* For each group; NULL as the result with a reason in `why` refuses. May be NULL. */
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
