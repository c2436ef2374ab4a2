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
           DeviceCalls& its_devices)
      : mesh(its_mesh),
        devices(its_devices),
        collectives(its_mesh, options, status, recorder, its_devices),
        messages(its_mesh, devices.devices()) {}

  Mesh& mesh;
  DeviceCalls& devices;
  Tracks collectives;
  PointToPoint messages;
};

}  // namespace ringwood
