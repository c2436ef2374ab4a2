#include "tools/command/types_and_ops.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "collectives/kernels/types.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// "all" is each of the `count` values.
template <class Value>
std::vector<Value> parse_list(const std::string& text, Value (*parse)(std::string_view),
                              int count) {
  std::vector<Value> values;
  for (const std::string& name : CLI::detail::split(text, ',')) {
    if (name.empty()) continue;
    if (name != "all") values.push_back(parse(name));
    for (int i = 0; name == "all" && i < count; ++i) values.push_back(static_cast<Value>(i));
  }
  if (values.empty()) parse(text);  // which refuses it
  return values;
}

}  // namespace

void add_type_and_op(CLI::App& command, std::string& type, std::string& op, HowMany how_many,
                     const std::string& group) {
  const bool several = how_many == HowMany::several;
  const std::string or_all = several ? "; or all" : "";
  command
      .add_option("-d,--dtype,--datatype", type, "float32, bfloat16, ..." + or_all + " (float32)")
      ->group(group)
      ->type_name(several ? "TYPE,...|all" : "TYPE");
  command.add_option("-o,--op", op, "sum, avg, max, ..." + or_all + " (sum)")
      ->group(group)
      ->type_name(several ? "OP,...|all" : "OP");
}

std::vector<DataType> parse_data_types(const std::string& text) {
  return parse_list(text, parse_data_type, kDataTypes);
}

std::vector<ReduceOp> parse_reduce_ops(const std::string& text) {
  return parse_list(text, parse_reduce_op, kReduceOps);
}

void require_supported(Collective collective, DataType type, ReduceOp op) {
  if (!supports(collective, type, op))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} cannot be reduced by {}", to_string(type), to_string(op)));
}

}  // namespace ringwood::tools
