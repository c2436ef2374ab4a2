// Ranks of one process, without communicators: their links only, for tests that step executors.
#pragma once

#include <memory>
#include <vector>

#include "tests/support/link_ranks.h"
#include "transports/loopback/loopback.h"
#include "transports/mesh.h"

namespace ringwood::testing {

// Meshes of one transport only: no control connection, since nothing here waits or fails.
inline std::vector<std::unique_ptr<Mesh>> make_meshes(int n, const MakeTransport& make_transport) {
  Setting setting;
  setting.size = n;
  setting.channels = channels_for(Mesh().in_flight);
  Ranks ranks = make_ranks(make_transport, setting);
  std::vector<std::unique_ptr<Mesh>> meshes;
  for (auto& rank : ranks.all) {
    auto& mesh = meshes.emplace_back(std::make_unique<Mesh>());
    mesh->rank = rank->group.rank();
    mesh->size = n;
    mesh->peers.resize(n);
    for (auto& of_channel : mesh->totals) of_channel.resize(n);
    for (int p = 0; p < n; ++p)
      for (int c = 0; c < setting.channels; ++c)
        mesh->peers[p].link[c] = std::move(rank->links[c][p]);
    mesh->wait_set = std::move(rank->wait_set);
    mesh->transports.push_back(std::move(rank->transport));
  }
  return meshes;
}

inline std::vector<std::unique_ptr<Mesh>> loopback_meshes(int n, const LoopbackFaults& faults) {
  return make_meshes(n, [&] { return make_loopback(faults); });
}

}  // namespace ringwood::testing
