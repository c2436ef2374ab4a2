#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "tools/doctor/collect/collect.h"
#include "tools/doctor/rules/facts.h"
#include "tools/gather.h"
#include "tools/ladder/child.h"
#include "tools/ladder/rungs.h"
#include "transports/bootstrap/net.h"
#include "transports/verbs/rail/addresses.h"

namespace ringwood::tools {
namespace {

constexpr const char* kLatency = "ib_write_lat";
constexpr const char* kBandwidth = "ib_write_bw";
constexpr auto kMaxPatience = std::chrono::milliseconds(30'000);
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr size_t kMaxLines = 500;
// Of a run: what takes long is done a few times, what is short often enough for a median.
constexpr size_t kBytesOfARun = size_t{4} << 20;
constexpr size_t kMinIterations = 5, kMaxIterations = 100;  // perftest wants 5
// Below it the rate at which writes follow each other says nothing that the latency does not.
constexpr size_t kMinForRate = 4096;

// A port, and how perftest names it.
struct Rail {
  verbs::RailAddress address;
  std::string device;
  int port = 1, gid_index = -1;  // -1: InfiniBand needs none
  double rate = 0;               // bytes/s; 0: unknown
};

std::string why_not_here(const Options& options) {
  const auto& names = options.transports;
  if (options.verbs.disable) return "verbs is switched off (RINGWOOD_VERBS_DISABLE)";
  if (!names.empty() && std::ranges::find(names, "verbs") == names.end())
    return "verbs is not among the transports that may be used";
  return "";
}

// The active ports that the options select, with the GID that a link would take (doctor has them
// from the kernel, without opening a device).
std::vector<Rail> rails_here(const Options& options) {
  doctor::Tree tree("/");
  doctor::Snapshot host;
  doctor::collect_process(tree, "self", host);
  doctor::collect_ports(tree, host);
  doctor::collect_interfaces(tree, host);
  std::vector<Rail> rails;
  for (const doctor::RdmaPort& port : host.ports) {
    if (!doctor::is_active(port) ||
        !verbs::selected(options.verbs.devices, port.device, port.number))
      continue;
    Rail rail{{name_of(port), !doctor::is_roce(port), {}}, port.device, port.number, -1, 0};
    std::string why;
    std::optional<verbs::Gid> gid = doctor::chosen_gid(host, port, why);
    for (const verbs::Gid& fixed : doctor::gid_table(host, port))
      if (fixed.index == options.verbs.gid_index) gid = fixed;
    if (!gid && !rail.address.infiniband) continue;
    if (!doctor::is_software(port)) rail.rate = port.rate_gbits.value_or(0) * 1e9 / 8;
    if (gid) rail.address.gid = gid->bytes;
    if (!rail.address.infiniband) rail.gid_index = gid->index;
    rails.push_back(std::move(rail));
  }
  return rails;
}

std::string reason_of(const Options& options, const std::vector<Rail>& rails) {
  if (std::string why = why_not_here(options); !why.empty()) return why;
  if (rails.empty()) return "no active RDMA port that a link would use";
  if (!in_path(kLatency) || !in_path(kBandwidth))
    return fmt::format("{} and {} are not in PATH; install perftest", kLatency, kBandwidth);
  return "";
}

// The last row of numbers that perftest prints.
std::vector<double> last_row(const std::vector<std::string>& lines) {
  std::vector<double> row;
  for (const std::string& line : lines) {
    std::vector<double> numbers;
    const char* at = line.c_str();
    for (char* end = nullptr;; at = end) {
      const double number = std::strtod(at, &end);
      if (end == at || !std::isfinite(number)) break;
      numbers.push_back(number);
    }
    if (numbers.size() >= 5) row = numbers;
  }
  return row;
}

class VerbsRung final : public Rung {
 public:
  VerbsRung(const LadderPair& pair, const Rail& rail)
      : pair_(pair),
        rail_(rail),
        patience_(patience_of_program(pair.options, kMaxPatience)),
        environment_(environment_of_child()) {}

  bool by_programs() const override { return true; }
  bool starts_anew() const override { return true; }
  std::string failure() const override { return failure_; }

  // A write arrives after what ib_write_lat says; and bytes move both ways no faster than what
  // ib_write_bw -b says.
  double exchange(size_t bytes, int /*times*/) override {
    const std::vector<double> latency = run({kLatency}, bytes);
    if (latency.empty()) return 0;
    const double seconds = latency[4] * 1e-6;
    if (bytes < kMinForRate) return seconds;
    const std::vector<double> rates = run({kBandwidth, "-b"}, bytes);
    if (rates.empty()) return 0;
    // In MiB/s with two digits, and in millions of messages with six; of both ways together.
    const double rate =
        std::max(rates[3] * 0x1p20, rates[4] * 1e6 * static_cast<double>(bytes)) / 2;
    return std::max(seconds, static_cast<double>(bytes) / rate);
  }

 private:
  std::vector<std::string> words(std::vector<std::string> begin, size_t bytes,
                                 const std::string& port) const {
    const size_t times = std::clamp(kBytesOfARun / bytes, kMinIterations, kMaxIterations);
    const VerbsOptions& verbs = pair_.options.verbs;
    const auto add = [&](const char* option, const std::string& value) {
      begin.insert(begin.end(), {option, value});
    };
    add("-d", rail_.device);
    add("-i", fmt::to_string(rail_.port));
    if (rail_.gid_index >= 0) add("-x", fmt::to_string(rail_.gid_index));
    if (verbs.service_level > 0) add("-S", fmt::to_string(verbs.service_level));
    if (verbs.traffic_class > 0) begin.push_back(fmt::format("--tclass={}", verbs.traffic_class));
    add("-s", fmt::to_string(bytes));
    add("-n", fmt::to_string(times));
    add("-p", port);
    begin.push_back("-F");
    return begin;
  }
  // What it printed; `code` is its exit code, nullopt: too late.
  std::vector<std::string> output(const std::vector<std::string>& command, Deadline deadline,
                                  std::optional<int>& code) {
    Child child(command, environment_, /*with_errors=*/true);
    std::vector<std::string> lines;
    while (lines.size() < kMaxLines) {
      auto line = child.line(deadline);
      if (!line) break;
      lines.push_back(std::move(*line));
    }
    code = child.wait(deadline);
    return lines;
  }
  static bool found_nobody(const std::vector<std::string>& lines) {
    return std::ranges::any_of(
        lines, [](const auto& line) { return line.find("n't connect") != line.npos; });
  }
  // The measuring program on rank 0, its server on rank 1. Rank 0's last row of numbers on both
  // ranks; empty: see failure().
  std::vector<double> run(std::vector<std::string> begin, size_t bytes) {
    const std::string program = begin[0];
    const bool server = pair_.group.rank() == 1;
    // A port that is free now: nobody else asks for it in the next second.
    std::string mine;
    if (server) mine = to_string(listen(Identity{}, pair_.address, pair_.options)->address());
    const NetAddress where = parse_net_address(gather_texts(pair_.group, mine)[1]);
    std::vector<std::string> command = words(std::move(begin), bytes, fmt::to_string(where.port));
    if (!server) command.push_back(where.host);
    const Deadline deadline = Deadline::after(patience_);
    std::optional<int> code;
    std::vector<std::string> lines = output(command, deadline, code);
    // Until the server listens.
    while (!server && code && *code != 0 && found_nobody(lines) && !deadline.passed()) {
      std::this_thread::sleep_for(kPause);
      lines = output(command, deadline, code);
    }
    std::string why;
    if (!code)
      why = fmt::format("{}: too late", program);
    else if (*code != 0)
      why = fmt::format("{}: {}", program, lines.empty() ? "it ended" : lines.back());
    const std::vector<double> row = last_row(lines);
    if (why.empty() && !server && row.empty()) why = program + " printed no numbers";
    return agree(why.substr(0, 200), row);
  }
  std::vector<double> agree(const std::string& why, const std::vector<double>& row) {
    const auto all = gather_texts(pair_.group, why);
    // A client's reason is often only that there is no server.
    failure_ = all[1].empty() ? all[0] : all[1];
    if (!failure_.empty()) return {};
    // Rank 1's are not used: only rank 0's seconds count.
    return pair_.group.rank() == 0 ? row : std::vector<double>(6, 1);
  }

  const LadderPair pair_;
  const Rail rail_;
  const std::chrono::milliseconds patience_;
  const std::vector<std::string> environment_;
  std::string failure_;
};

}  // namespace

double rate_of_rdma_ports(const Options& options) {
  double rate = 0;
  for (const Rail& rail : rails_here(options)) rate += rail.rate;
  return rate;
}

MadeRung make_verbs_rung(const LadderPair& pair) {
  MadeRung made{nullptr, "RDMA writes of perftest", ""};
  if (gather_hosts(pair.group).size() < 2) {
    made.why_not = "both ranks are on one host";
    return made;
  }
  const std::vector<Rail> rails = rails_here(pair.options);
  verbs::SharedAddress mine;
  mine.address.reason = reason_of(pair.options, rails);
  for (const Rail& rail : rails)
    if (mine.address.rails.size() < verbs::kMaxRails) mine.address.rails.push_back(rail.address);
  const auto texts = gather_texts(pair.group, encode(mine));
  std::array<verbs::SharedAddress, 2> both;
  for (size_t rank = 0; rank < 2; ++rank) {
    if (!decode(std::as_bytes(std::span(texts[rank])), both[rank]))
      both[rank].address.reason = "the other rank's ports are not readable";
    if (made.why_not.empty() && !both[rank].address.reason.empty())
      made.why_not = fmt::format("rank {}: {}", rank, both[rank].address.reason);
  }
  if (!made.why_not.empty()) return made;
  const auto pairs = verbs::pair_rails(both[0].address, both[1].address);
  if (pairs.empty()) {
    made.why_not = "no RDMA port of one host is in a network with one of the other";
    return made;
  }
  const auto [first, second] = pairs.front();
  made.what += fmt::format(", {} to {}{}", both[0].address.rails[static_cast<size_t>(first)].name,
                           both[1].address.rails[static_cast<size_t>(second)].name,
                           pairs.size() > 1 ? fmt::format(", one of {} rails", pairs.size()) : "");
  const int own = pair.group.rank() == 0 ? first : second;
  made.rung = std::make_unique<VerbsRung>(pair, rails[static_cast<size_t>(own)]);
  return made;
}

}  // namespace ringwood::tools
