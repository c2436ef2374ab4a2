#include "tools/top/top.h"
#include "tools/command/numbers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "tools/command/help.h"
#include "tools/top/cells.h"
#include "tools/top/http.h"
#include "tools/top/screen.h"
#include "tools/top/serve.h"
#include "tools/top/top_json.h"
#include "transports/base/options.h"

namespace ringwood::tools {
namespace {

struct TopOptions {
  JobChoice choice;
  bool json = false, once = false, serve = false, token = false;
  double wait = 0;
  ServeOptions server;
};

constexpr std::chrono::seconds kPeriod{1};

std::string key_file() { return Options::from_environment().key_file; }

void print(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// One object per line and second, until the job ends or nobody reads.
void print_lines(Sampler& sampler, bool once) {
  (void)sampler.next();  // rates are differences of two looks
  for (auto next = Clock::now() + kPeriod;; next += kPeriod) {
    std::this_thread::sleep_until(next);
    const auto sample = sampler.next();
    if (!sample) return;
    print(json_line(*sample) + "\n");
    if (once || std::ferror(stdout)) return;
  }
}

void print_once(Sampler& sampler) {
  (void)sampler.next();
  std::this_thread::sleep_for(kPeriod);
  if (const auto sample = sampler.next()) print(plain_text(*sample));
}

void run(const TopOptions& options) {
  if (options.token) return print(token_of_key(key_file()) + "\n");
  ServeOptions server = options.server;
  if (options.serve && !key_file().empty()) server.token = token_of_key(key_file());
  const std::chrono::duration<double> wait(options.wait);
  Sampler sampler(options.choice, Deadline::after(std::chrono::duration_cast<Duration>(wait)));
  std::signal(SIGPIPE, SIG_IGN);
  if (options.serve) return serve(sampler, server);
  if (options.json) return print_lines(sampler, options.once);
  if (options.once || !isatty(STDOUT_FILENO)) return print_once(sampler);
  run_screen(sampler);
}

void check(const TopOptions& options) {
  const std::string& address = options.server.address;
  const bool local = address.empty() || address.starts_with("127.") || address == "::1";
  if ((options.token || !local) && key_file().empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} needs the job's key: whoever is not its user bears a token of it; "
                            "set RINGWOOD_KEY_FILE as for the job",
                            options.token ? "--token" : "--address beyond this host"));
  if (options.serve && (options.json || options.once))
    throw Error(ErrorCode::invalid_argument, "--serve goes alone: without --json and --once");
}

}  // namespace

void add_top_command(CLI::App& app) {
  const auto options = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand(
      "top", "A running job, live: what every rank does, and who is late (keys: q s g p)");
  command->add_option("--job", options->choice.job,
                      "the job, by the name that is printed where there are several");
  command->add_option("--pid", options->choice.pid, "the job of this process");
  command->add_option("--wait", options->wait, "seconds to wait for the job to begin")
      ->check(decimal(0.0, 86400.0));
  command->add_flag("--json", options->json, "one object per line and second, until the job ends");
  command->add_flag("--once", options->once, "one look, as a table or with --json, then the end");
  command->add_flag("--serve", options->serve,
                    "answers Prometheus (/metrics) and clients of NCCL's RAS, on this host only");
  ServeOptions& server = options->server;
  command->add_option("--metrics-port", server.metrics_port, "for --serve; 0: any free one")
      ->check(whole(0, 65535))
      ->capture_default_str();
  command->add_option("--ras-port", server.ras_port, "for --serve; 0: any free one")
      ->check(whole(0, 65535))
      ->capture_default_str();
  command->add_option("--address", server.address,
                      "for --serve: where /metrics listens, for other hosts: needs the job's key");
  command->add_flag("--token", options->token,
                    "prints what a Prometheus of another user or host has to bear, from the key in "
                    "RINGWOOD_KEY_FILE");
  add_help(
      *command,
      {{"ringwood top", "the job of this user on this host, on the terminal"},
       {"ringwood top --pid 4711 --once", "one table of the job of this process"},
       {"ringwood top --json", "what every rank does, second by second, for scripts"},
       {"ringwood top --token > /etc/prometheus/ringwood.token",
        "RINGWOOD_KEY_FILE is set as for the job: the credentials_file of a Prometheus"},
       {"ringwood top --serve --address 0.0.0.0", "and so the metrics, for one on another host"},
       {"ringwood top --serve --ras-port 28028", "then: ncclras -v, or nc localhost 28028"}},
      {{0, "the job has ended, or the user has left"}, {1, "there is no job"}, {2, "bad input"}});
  command->callback([options] {
    check(*options);
    run(*options);
  });
}

}  // namespace ringwood::tools
