// `ringwood schedule`: shows, proves, costs, draws and runs schedules, of the table or from any
// text.
#pragma once

namespace CLI {
class App;
}

namespace ringwood::tools {

// Declares the subcommand. When it is given, `exit_code` is set: 0, or 1 if `verify` refuted, or a
// run failed. Parsing throws CLI::ParseError or Error(invalid_argument).
void add_schedule_command(CLI::App& app, int& exit_code);

}  // namespace ringwood::tools
