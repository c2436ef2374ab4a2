// `ringwood explain`: what every algorithm would cost for a collective and a size, and which one is
// chosen. Starts nothing; measures this host's parameters where they are not yet known.
#pragma once

namespace CLI {
class App;
}

namespace ringwood::tools {

// Declares the subcommand. Parsing throws CLI::ParseError or Error(invalid_argument).
void add_explain_command(CLI::App& app);

}  // namespace ringwood::tools
