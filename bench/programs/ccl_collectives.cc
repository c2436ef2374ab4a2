// One collective of oneCCL on float32 in host memory, by the rules of batches.h. MPI only starts
// the ranks and tells them oneCCL's address, as in oneCCL's own examples; their barrier is MPI's.
// Started by bench/peers and bench/collectives:
//   mpirun -n 2 ccl_collectives 8,4096,1048576 plain,touched all_reduce
#include <mpi.h>

#include <cstring>
#include <exception>
#include <oneapi/ccl.hpp>

#include "collective_rows.h"

// The static archive was compiled by Intel's compiler and wants two functions of its runtime. It
// also calls a profiler through pointers; null ones say that there is none.
extern "C" {
void* _intel_fast_memcpy(void* to, const void* from, size_t bytes) {
  return std::memcpy(to, from, bytes);
}
void* _intel_fast_memset(void* to, int value, size_t bytes) {
  return std::memset(to, value, bytes);
}
void* __itt_domain_create_ptr__3_0 = nullptr;
void* __itt_event_create_ptr__3_0 = nullptr;
void* __itt_event_end_ptr__3_0 = nullptr;
void* __itt_event_start_ptr__3_0 = nullptr;
void* __itt_metadata_add_ptr__3_0 = nullptr;
void* __itt_string_handle_create_ptr__3_0 = nullptr;
void* __itt_task_begin_ptr__3_0 = nullptr;
void* __itt_task_end_ptr__3_0 = nullptr;
void* __itt_thread_set_name_ptr__3_0 = nullptr;
}

static const ccl::communicator* world;

static void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

static double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

static void all_reduce(float* data, size_t count) {
  ccl::allreduce(data, data, count, ccl::reduction::sum, *world).wait();
}

static void all_gather(float* data, size_t count) {
  ccl::allgather(data, other, count / static_cast<size_t>(ranks), *world).wait();
}

static void reduce_scatter(float* data, size_t count) {
  const size_t block = count / static_cast<size_t>(ranks);
  ccl::reduce_scatter(data, other, block, ccl::reduction::sum, *world).wait();
}

static void all_to_all(float* data, size_t count) {
  ccl::alltoall(data, other, count / static_cast<size_t>(ranks), *world).wait();
}

static void broadcast(float* data, size_t count) { ccl::broadcast(data, count, 0, *world).wait(); }

static int measure(int argc, char** argv) {
  ccl::init();
  ccl::shared_ptr_class<ccl::kvs> store;
  ccl::kvs::address_type address{};
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) store = ccl::create_kvs(address);
  const ccl::communicator communicator = ccl::create_communicator(ranks, rank, store);
  world = &communicator;
  const Bootstrap bootstrap = {barrier, slowest};
  return measure_collective(argc, argv, &bootstrap);
}

int main(int argc, char** argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int status = 1;
  try {
    status = measure(argc, argv);
  } catch (const std::exception& error) {
    fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
