// `ringwood trace`: what the ranks of a job recorded, or record now, as a time line, and in
// sentences on what took longer than predicted.
#pragma once

namespace CLI {
class App;
}

namespace ringwood::tools {

void add_trace_command(CLI::App& app);

}  // namespace ringwood::tools
