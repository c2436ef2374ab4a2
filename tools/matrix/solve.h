// From the rates of all pairs to what is slow. Pure.
#pragma once

#include <vector>

#include "tools/matrix/matrix.h"

namespace ringwood::tools {

// A pair has the least of three rates: what its sender can send to anybody, what its receiver can
// receive from anybody, and what is between them. A host's own rate is the median of its row, or of
// its column; so with three hosts or more, one bad link does not make its hosts look slow, and a
// slow host does not make all of its links look bad. With two hosts, a direction is compared with
// the other one.
//
// `table`: [from][to], 0 where not measured. Named is what has less than `slow` of what is
// expected: of hosts the median host, of a link the slower one of its two hosts. Worst first.
std::vector<SlowPath> find_slow(const Table& table, double slow, const std::string& rail);

// Rails that are slow at all hosts, against the fastest one; and such as are slow while all rails
// are busy, against what they reach alone. Worst first. Whether hosts are slow is not asked.
std::vector<SlowPath> find_slow_rails(const Matrix& matrix, double slow);

// What a transfer takes when nothing is slow: the upper median of what was measured; 0 without.
double median_rate(const Table& table);
// The rates by which a rail is judged: of each pair alone, or where these were not asked for, of
// disjoint pairs.
const Table& judged(const HostMatrix& rail);

}  // namespace ringwood::tools
