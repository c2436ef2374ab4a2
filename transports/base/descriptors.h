// The limit of files that this process may open; containers and old shells start with few.
#pragma once

#include <cstddef>

namespace ringwood {

// Raises the soft limit, as far as the hard one allows, so that `more` descriptors can be opened
// (and as many again by the program itself). Throws Error(system) that says how many `purpose`
// ("the links over tcp") needs, and what to raise. Any thread.
void make_room_for_descriptors(size_t more, const char* purpose);

}  // namespace ringwood
