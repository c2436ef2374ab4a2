// Predictions of rows of the table, for tests: their programs are proved once.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/device/choose_device.h"

namespace ringwood::device {

inline constexpr size_t kMiB = 1 << 20;

inline CollectiveArgs call(Collective collective, size_t bytes, int n) {
  const size_t blocks = in_blocks(collective) ? static_cast<size_t>(n) : 1;
  return {collective, DataType::float32, ReduceOp::sum, 0, std::max<size_t>(1, bytes / 4 / blocks),
          {}};
}

struct RowWay {
  Collective collective = Collective::all_reduce;
  const char* row = "direct";
  bool packets = false;
};

inline DevicePrediction predicted(const RowWay& of, size_t bytes, int n, int blocks,
                                  const IslandModel& model = {}) {
  static DeviceRows rows;
  const ProvedProgram* const proved =
      rows.find(*find_algorithm(of.collective, of.row), n, 0, of.packets);
  return predict(*proved, call(of.collective, bytes, n), blocks, model);
}

inline std::vector<int> block_counts() { return {1, 2, 4, 8, 16, 32}; }

inline std::vector<const AlgorithmRow*> rows_with_data(int n) {
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : algorithm_table())
    if (moves_data(row.collective) && row.accepts(n)) rows.push_back(&row);
  return rows;
}

}  // namespace ringwood::device
