// Ranks of one process, without communicators: their links only, for who steps executors by hand.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "transports/base/host.h"
#include "transports/base/wait_set.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store.h"
#include "transports/loopback/loopback.h"
#include "transports/mesh.h"

namespace ringwood::testing {

using MakeTransport = std::function<std::unique_ptr<Transport>()>;

// Meshes of one transport only: no control connection, since nothing here waits or fails.
inline std::vector<std::unique_ptr<Mesh>> make_meshes(int n, const MakeTransport& make_transport) {
  std::vector<std::unique_ptr<Mesh>> meshes(n);
  auto store = memory_store();
  Identity identity;
  identity.key = random_key();
  identity.session = random_session();
  identity.size = n;
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      auto mesh = std::make_unique<Mesh>();
      mesh->rank = r;
      mesh->size = n;
      mesh->peers.resize(n);
      for (auto& of_channel : mesh->totals) of_channel.resize(n);
      mesh->wait_set = std::make_unique<WaitSet>();
      const Options options;
      Group group;
      group.identity = identity;
      group.identity.rank = r;
      group.hosts.assign(n, host_token());
      group.options = &options;
      group.store = store.get();
      group.wait_set = mesh->wait_set.get();
      group.deadline = Deadline::after(std::chrono::seconds(20));
      std::vector<bool> wanted(n, true);
      wanted[r] = false;
      auto transport = make_transport();
      const int channels = channels_for(mesh->in_flight);
      auto links = transport->connect(group, wanted, channels);
      for (int p = 0; p < n; ++p)
        for (int c = 0; c < channels; ++c) mesh->peers[p].link[c] = std::move(links[c][p]);
      mesh->transports.push_back(std::move(transport));
      meshes[r] = std::move(mesh);
    });
  for (auto& t : threads) t.join();
  return meshes;
}

inline std::vector<std::unique_ptr<Mesh>> loopback_meshes(int n, const LoopbackFaults& faults) {
  return make_meshes(n, [&] { return make_loopback(faults); });
}

}  // namespace ringwood::testing
