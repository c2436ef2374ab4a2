// The operations in flight: collectives, and messages, which have no order relative to them. The
// driver only.
#pragma once

#include <vector>

#include "collectives/messages/point_to_point.h"
#include "collectives/runtime/tracks.h"
#include "transports/mesh.h"

namespace ringwood {

struct InFlight {
  InFlight(Mesh& its_mesh, const Options& options, RunningStatus& status, Recorder& recorder,
           DeviceCalls& devices)
      : mesh(its_mesh),
        collectives(its_mesh, options, status, recorder, devices),
        messages(its_mesh) {}

  Mesh& mesh;
  Tracks collectives;
  PointToPoint messages;
};

}  // namespace ringwood
