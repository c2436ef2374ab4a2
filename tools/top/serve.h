// `ringwood top --serve`: two small servers, for Prometheus and for clients of NCCL's RAS.
//
// On this host's loopback, for processes of the same user and of root, as the job itself (their
// owner is looked up in /proc/net/tcp). With a token the metrics are also for whoever bears it
// (http.h), on this host or, at `address`, on others. RAS's protocol has no place for a token, so
// RAS stays with the same user and root. There are kMaxClients at each port at a time; the places
// of strangers are apart (serve_clients.h).
#pragma once

#include <string>

#include "tools/top/sample.h"

namespace ringwood::tools {

struct ServeOptions {
  std::string address;      // of the metrics; "": loopback
  int metrics_port = 9464;  // 0: any; the one that is taken is printed
  int ras_port = 28028;     // likewise
  std::string token;        // "": none
};

// Serves until the job has ended, or a signal comes; prints where, to standard error. Throws Error.
void serve(Sampler& sampler, const ServeOptions& options);

}  // namespace ringwood::tools
