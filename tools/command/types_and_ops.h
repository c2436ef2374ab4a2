// -d and -o: the data type and the reduction, alike in every command that takes them: their names,
// their help, how they are read, and the words in which they are refused.
//
// What cannot be throws Error(invalid_argument).
#pragma once

#include <string>
#include <vector>

#include "collectives/kernels/data_types.h"
#include "collectives/schedule/collective.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

enum class HowMany { one, several };

// -d, --dtype, and --datatype as in nccl-tests; -o, --op. `type` and `op` must outlive `command`.
void add_type_and_op(CLI::App& command, std::string& type, std::string& op,
                     HowMany how_many = HowMany::one, const std::string& group = "Options");

// Of HowMany::several: "float32,half", or "all".
std::vector<DataType> parse_data_types(const std::string& text);
std::vector<ReduceOp> parse_reduce_ops(const std::string& text);

void require_supported(Collective collective, DataType type, ReduceOp op);

}  // namespace ringwood::tools
