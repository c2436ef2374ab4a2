#include "collectives/cost/cost_built.h"

namespace ringwood {

BuiltRank Builder::operator()(int rank) {
  BuiltRank one{build_(rank), nullptr, {}};
  const Schedule& s = one.schedule;
  if (!first_byte_ || s.chunks != chunks_ || s.scratch != scratch_) {
    auto first_byte = std::make_shared<std::vector<double>>(1, 0.0);
    for (const size_t bytes : chunk_bytes(s, load_))
      first_byte->push_back(first_byte->back() + static_cast<double>(bytes));
    first_byte_ = std::move(first_byte);
    chunks_ = s.chunks;
    scratch_ = s.scratch;
  }
  one.first_byte = first_byte_;
  return one;
}

}  // namespace ringwood
