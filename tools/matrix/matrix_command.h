// `ringwood matrix`: measures all pairs of hosts and rails (matrix.h), by any launcher's ranks.
#pragma once

namespace CLI {
class App;
}

namespace ringwood::tools {

// Declares the subcommand. Sets `exit_code`: 0, or 1 where something is slow or the run failed.
void add_matrix_command(CLI::App& app, int& exit_code);

}  // namespace ringwood::tools
