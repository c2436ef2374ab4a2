// Graphs and their replay: nodes run as soon as those before them are done, at the same time where
// nothing orders them. Thread safety: all functions.
#pragma once

#include "tests/cuda/double/captures.h"

namespace fake_cuda {

CUgraph make_graph(Nodes nodes);

}  // namespace fake_cuda
