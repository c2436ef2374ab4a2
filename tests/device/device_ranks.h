// The ranks of a device group in this process's memory: bound programs, windows, buffers and what
// must come out. Who carries the programs out is up to the test: threads, or a machine of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/device/bind_words.h"
#include "tests/device/device_reference.h"

namespace ringwood::testing {

struct DeviceCase {
  const AlgorithmRow* row = nullptr;
  int n = 2, root = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  size_t count = 1;
  int segments = 1;
  bool packets = false;
  bool staged = false;    // no rank's buffers are mapped
  bool specials = false;  // NaN, infinities, zeros of both signs
};
std::string describe(const DeviceCase& of);
// Made once. Precondition: is_possible().
const device::ProvedProgram& proved_of(const DeviceCase& of);
// Whether the row takes so many ranks, and the type this operation.
bool is_possible(const DeviceCase& of);

class DeviceRanks final {
 public:
  // `rounds` operations, one after the other, each with data and odd addresses of its own.
  // `program`: instead of the case's own.
  DeviceRanks(const DeviceCase& of, int rounds, uint64_t seed,
              const device::ProvedProgram* program = nullptr);

  // More bytes than a window's packets have; the case is then not carried out.
  bool too_large() const { return too_large_; }
  int ranks() const { return case_.n; }
  int segments() const { return case_.segments; }
  std::string kernel() const { return device::kernel_of(case_.type, fold_.fold); }

  // As if so many operations had been before, the last of whose packets have this stamp.
  void age(uint64_t operations, uint32_t stamp);

  // The user of a rank writes its buffers before an operation, and reads them after it. "" or what
  // is wrong.
  void write(int rank, int round);
  std::string check(int rank, int round) const;
  // The memory that those two touch.
  struct Range {
    std::byte* base = nullptr;
    size_t bytes = 0;
    std::string name = "";
  };
  std::vector<Range> user_memory(int rank, int round) const;
  // All that a kernel of any rank may touch.
  std::vector<Range> all_memory() const;

  const device::Launch& launch(int rank, int round) const { return launches_[round][rank]; }
  device::Launch& launch(int rank, int round) { return launches_[round][rank]; }
  const device::Report& report(int rank, int segment) const { return reports_[rank][segment]; }
  // "" or the first report.
  std::string reported() const;
  void abort() { __atomic_store_n(abort_.get(), 1u, __ATOMIC_RELAXED); }

 private:
  struct Aligned {
    std::unique_ptr<std::byte[]> memory;
    std::byte* base = nullptr;
    size_t bytes = 0;
  };
  static Aligned zeroed(size_t bytes);
  void make_arenas();
  void make_data(uint64_t seed);
  void make_launch(int rank, int round);

  const DeviceCase case_;
  CollectiveArgs args_;
  device::WindowLayout window_;
  bool too_large_ = false, whole_ = false;
  device::BoundFold fold_;
  std::vector<Schedule> schedules_;
  std::vector<device::BoundWords> bound_;
  size_t input_room_ = 0, output_room_ = 0, scratch_room_ = 0;
  std::vector<Aligned> arenas_, user_;  // by rank
  std::vector<device::MappedMemory> mapped_;
  std::vector<std::vector<device::Report>> reports_;
  std::unique_ptr<uint32_t> abort_;
  std::vector<RankBytes> inputs_, before_, after_;     // by round
  std::vector<std::vector<size_t>> shift_;             // by round and rank: bytes
  std::vector<std::vector<device::Launch>> launches_;  // by round and rank
};

}  // namespace ringwood::testing
