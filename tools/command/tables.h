// `ringwood env` and `ringwood algorithms`: the table of knobs and that of algorithms, as text or
// JSON.
#pragma once

namespace CLI {
class App;
}

namespace ringwood::tools {

// Declare the subcommands. Parsing throws CLI::ParseError or Error(invalid_argument).
void add_env_command(CLI::App& app);
void add_algorithms_command(CLI::App& app);

}  // namespace ringwood::tools
