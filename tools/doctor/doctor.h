// `ringwood doctor`: what is wrong with this host, or with all hosts of a job, and its repair.
//
//   collect.h  -> snapshot.h -> rules.h -> present.h
//   a host        a value       findings   text, JSON, page
//
// It changes nothing: --fix only prints.
#pragma once

namespace CLI {
class App;
}

namespace ringwood::tools {

// Declares the subcommand. Sets `exit_code`: 0 clean; 1 warnings; 2 errors; 3 could
// not check: a host did not answer, or nothing could be read of one, and no error was found.
void add_doctor_command(CLI::App& app, int& exit_code);

}  // namespace ringwood::tools
