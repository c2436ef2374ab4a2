/* A program in C: two ranks in one thread. The exit status is 0 if all went well. */
#include <stdio.h>

#include "collectives/nccl/nccl.h"

#define CHECK(call)                                                                       \
  do {                                                                                    \
    const ncclResult_t result = (call);                                                   \
    if (result != ncclSuccess) {                                                          \
      fprintf(stderr, "%s: %s: %s\n", #call, ncclGetErrorString(result), ncclGetLastError(NULL)); \
      return 1;                                                                           \
    }                                                                                     \
  } while (0)

int main(void) {
  ncclComm_t comms[2];
  float values[2][64], sums[2][64];
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    CHECK(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config));
  CHECK(ncclGroupEnd());
  for (int rank = 0; rank < 2; ++rank)
    for (int i = 0; i < 64; ++i) values[rank][i] = (float)(i * (rank + 1));
  CHECK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    CHECK(ncclAllReduce(values[rank], sums[rank], 64, ncclFloat, ncclSum, comms[rank], NULL));
  CHECK(ncclGroupEnd());
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 64; ++i)
      if (sums[rank][i] != (float)(3 * i)) return 2;
    CHECK(ncclCommDestroy(comms[rank]));
  }
  return 0;
}
