// `ringwood top`: what a running job does, live, from any of its hosts and without a change of it.
//
//   ranks --reports--> rank 0 --pages--> a rank of this host --Unix socket--> JobWatcher
//                                            (transports/control/status)          |
//   screen, lines of JSON, Prometheus, RAS <-- Sampler (events) <-- analyse() <---+
#pragma once

namespace CLI {
class App;
}

namespace ringwood::tools {

// Declares the subcommand. Parsing throws CLI::ParseError or Error.
void add_top_command(CLI::App& app);

}  // namespace ringwood::tools
