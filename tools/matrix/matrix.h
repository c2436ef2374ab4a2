// What each host can send to each other one: rates and latencies of all pairs of hosts, and of all
// pairs of rails where hosts have several.
//
// The probes are schedules (rounds.h). A round is a perfect matching of the hosts, n - 1 rounds
// cover all pairs (a round-robin tournament), and every round is proved before it runs. Each pair
// is measured alone (one direction, everything else idle), in its round (both directions of
// disjoint pairs at once), and with all hosts sending to all.
//
// From the rates of the pairs follows what is slow (solve.h): a host that sends or receives slowly
// to all others, or the link between two hosts; a rail that is slow at all hosts, or that is slow
// only while the other rails are busy too.
//
// Seconds, bytes per second. Plain values; a table is [from][to] by host, 0 where nothing was
// measured.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"

namespace ringwood::tools {

using Table = std::vector<std::vector<double>>;

// Host x host, over one rail, by the first rank of each host that uses it.
struct HostMatrix {
  std::string rail;       // as the user calls it; "": the hosts have only one
  std::string transport;  // between hosts: "tcp", "verbs"; "tcp+verbs": not everywhere the same
  Table latency;          // one way, alone
  Table alone, pairs, all;
};

// Rail x rail, between the hosts of the first round; medians of their pairs. By rail, in the order
// of Matrix::rails.
struct RailMatrix {
  Table cross;              // from one host's rail to the other host's rail, alone
  Table pair;               // of the first rail, while the second one is busy too; diagonal: alone
  std::vector<double> all;  // of each rail, while all are busy
};

// What is slower than it should be.
struct SlowPath {
  // rail: at all hosts; together: while all rails are busy, against the rail's own rate.
  enum class Kind { link, sender, receiver, rail, together };
  Kind kind = Kind::link;
  int from = -1, to = -1;  // hosts; -1: all of them
  std::string rail;
  double rate = 0, expected = 0;
};

struct Matrix {
  std::vector<std::string> hosts;  // each name once; in the order of their first ranks
  std::vector<int> ranks;          // of each host
  std::vector<HostMatrix> rails;   // at least one, where there are two hosts or more
  RailMatrix rail_by_rail;         // empty with one rail
  std::vector<SlowPath> slow;      // worst first
  std::vector<std::string> notes;  // in what it is less than was asked for
  std::string machine;             // rank 0's parameters, as print(MachineModel) has them
  int sharing = 1;                 // hosts that run on the same cores, as containers do
  double seconds = 0;              // that the measurement took
};

struct MatrixOptions {
  bool alone = true, pairs = true, all = true;
  // At most so many hosts are measured alone, where each of n(n-1) directions takes its turn.
  int most_alone = 24;
  int repeats = 5;              // of each measurement; the best one counts
  double transfer_s = 20e-3;    // what a transfer should take; sizes follow from that
  size_t max_bytes = 64 << 20;  // of a transfer
  double slow = 0.75;           // what has less of its expected rate is named
  std::string host;             // this rank's name for its host; "": the kernel's
  std::string rail;             // this rank's rail; "": it is not known
  size_t rails = 0;             // that each host should have ranks on; 0: as many as there are
  bool by_rank = false;         // each rank counts as a host
  // On rank 0, now and then: "pairs alone: 3 of 12". May be empty.
  std::function<void(const std::string&)> progress;
};

// Collective; nothing else may run in the group. The result is the same on all ranks. Throws the
// group's Error; Error(invalid_argument) for a group on one host.
Matrix measure_matrix(Communicator& group, const MatrixOptions& options);

// "host2 -> host3: 0.25 of the median, 52.0 MB/s, expected 208"
std::string describe(const Matrix& matrix, const SlowPath& slow);

// The cells of the tables of rates in which nothing sensible was measured, because transfers were
// too short beside what else an operation takes: "host2 -> host3, alone". Nobody knows whether
// these are slow.
std::vector<std::string> not_measured(const Matrix& matrix);
// 0: everything was measured and nothing is slow; else 1.
int exit_code_of(const Matrix& matrix);

// The JSON form (README): one object. parse_matrix() takes that, or an object that has it under
// "matrix"; bounded and strict: throws Error(invalid_argument).
std::string print_json(const Matrix& matrix);
Matrix parse_matrix(std::string_view json);

}  // namespace ringwood::tools
