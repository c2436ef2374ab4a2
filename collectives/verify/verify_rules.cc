#include "collectives/verify/verify_rules.h"

namespace ringwood {

bool Rules::mapped(int rank, int chunk) const {
  return has_memory(collective, at(rank), inside(chunk));
}

bool Rules::writable(int rank, int chunk) const {
  return may_write(collective, at(rank), inside(chunk));
}

bool Rules::begins(int rank, int chunk) const {
  return begins_with(collective, at(rank), inside(chunk));
}

int Rules::buffer(int chunk) const {
  return 2 * segment(chunk) + (has_input_chunks(collective) && inside(chunk) >= n ? 1 : 0);
}

int64_t Rules::size_class(int rank, int chunk) const {
  const int c = inside(chunk);
  const int64_t segment = this->segment(chunk), ranks = n;
  if (equal_blocks) return segment;
  switch (traits_of(collective).chunks) {
    case Chunks::inputs_and_output: return segment * ranks + (c < n ? c : rank);
    case Chunks::inputs_and_outputs:
      return segment * ranks * ranks + (c < n ? rank * ranks + c : (c - n) * ranks + rank);
    default: return chunk;
  }
}

std::optional<Contents> Rules::wanted(int rank, int chunk) const {
  auto contents = ends_with(collective, at(rank), inside(chunk));
  if (contents) contents->chunk += chunk - inside(chunk);
  return contents;
}

}  // namespace ringwood
