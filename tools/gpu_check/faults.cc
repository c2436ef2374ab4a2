// What goes wrong is named, on every rank that lives, and in time; and what a rank as a process of
// its own does for this and other steps.
#include <fmt/format.h>
#include <unistd.h>

#include "tools/gpu_check/driver_rules.h"
#include "tools/gpu_check/findings.h"
#include "tools/gpu_check/gpu_rank.h"
#include "tools/gpu_check/processes.h"
#include "tools/gpu_check/rank_cases.h"
#include "transports/shm/unix_socket.h"

namespace ringwood::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kRoom = 4096;

device::DeviceOptions small(std::chrono::milliseconds limit) {
  device::DeviceOptions options;
  options.segments = 4;
  options.staging_bytes = size_t{64} << 10;
  options.packet_bytes = 32 << 10;
  options.limit = limit;
  return options;
}

device::DeviceCall sum_of(const GpuRank& rank, size_t count) {
  device::DeviceCall call{Collective::all_reduce};
  call.output = rank.output(GpuRank::Kind::mapped);
  call.count = count;
  call.algorithm = "direct";
  call.packets = 0;
  call.segments = 1;
  return call;
}

std::string must_say(const Status& done, std::string_view part) {
  if (done) return fmt::format("no error, where one should say \"{}\"", part);
  const std::string said = done.error().message();
  return said.find(part) != said.npos ? "" : "the error does not say what happened: " + said;
}

std::string names_a_mismatch(const cuda::Driver& driver) {
  return on_threads(2, [&](Communicator& group) {
    const GpuRank rank(group, driver, group.rank() % device_count(driver),
                       small(std::chrono::seconds(10)), kRoom);
    rank.fill(rank.output(GpuRank::Kind::mapped), 0x11, 256);
    const Status done = rank.run(sum_of(rank, group.rank() == 1 ? 63 : 64));
    std::string wrong = must_say(done, "something else at the same time");
    if (wrong.empty() &&
        rank.read(rank.output(GpuRank::Kind::mapped), 256) != Bytes(256, std::byte{0x11}))
      wrong = "a buffer was written";
    return wrong;
  });
}

std::string keeps_its_limit(const cuda::Driver& driver) {
  return on_threads(2, [&](Communicator& group) -> std::string {
    const GpuRank rank(group, driver, group.rank() % device_count(driver),
                       small(std::chrono::seconds(1)), kRoom);
    if (group.rank() == 1) {  // never calls
      const auto end = Clock::now() + std::chrono::seconds(6);
      while (group.health() && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return group.health() ? "the other rank's limit has not ended the group" : "";
    }
    const auto began = Clock::now();
    std::string wrong = must_say(rank.run(sum_of(rank, 64)), "longer than it may");
    if (wrong.empty() && Clock::now() - began > std::chrono::seconds(4))
      wrong = "a limit of 1 s took more than 4 s";
    return wrong;
  });
}

// The survivor's kernel spins while the other process is dead.
std::string names_a_death(const std::string& program) {
  const Folder folder;
  const auto start = [&](int rank) {
    return std::make_unique<Process>(
        program, std::vector<std::string>{"one-rank", "role=die", "folder=" + folder.path(),
                                          fmt::format("rank={}", rank), "size=2"});
  };
  const auto first = start(0), second = start(1);
  if (const std::string said = second->line(40); said != "ran")
    return "rank 1: " + (said.empty() ? "has ended, or said nothing for 40 s" : said);
  if (const std::string said = first->line(20); said != "ran")
    return "rank 0: " + (said.empty() ? "has ended, or said nothing for 20 s" : said);
  second->kill();  // while the first one's kernel waits for it
  const std::string said = first->line(20);
  if (said.find("rank 1") == said.npos)
    return "the survivor does not name rank 1: " + (said.empty() ? "nothing for 20 s" : said);
  return "";
}

int say(const std::string& line) {
  std::string one = line;
  for (char& c : one)
    if (c == '\n') c = ' ';
  fmt::print("{}\n", one);
  return std::fflush(stdout);
}

void map_what_is_sent(const cuda::Driver& driver) {
  constexpr int kSocket = 3;
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  uint64_t bytes = 0;
  auto fds = shm::receive_message(kSocket, &bytes, sizeof bytes, deadline);
  if (fds.size() != 1) throw Error(ErrorCode::system, "no descriptor came");
  std::vector<cuda::SharedPart> parts(1);
  parts[0] = {std::move(fds[0]), bytes};
  const cuda::Device device(driver, 0);
  const cuda::PeerArena arena(device, parts);
  set_word(device, arena.base(), word_at(device, arena.base()) + 1);
  say("right");
}

}  // namespace

void one_rank(const cuda::Driver& driver, const Settings& settings, Findings& findings) {
  ::alarm(90);  // ends it if nobody else does
  findings.check(settings.role, [&]() -> std::string {
    try {
      if (settings.role == "map") {
        map_what_is_sent(driver);
        return "";
      }
      const auto group = Communicator::create(file_store(settings.folder + "/store"), settings.rank,
                                              settings.size, options_of_ranks(), "gpu-check");
      const int ordinal = settings.rank % device_count(driver);
      if (settings.role == "compare") {
        const std::string wrong = run_cases(*group, driver, ordinal, settings.thin);
        say(wrong.empty() ? "right" : wrong);
        return wrong;
      }
      const GpuRank rank(*group, driver, ordinal, small(std::chrono::seconds(60)), kRoom);
      const Status first = rank.run(sum_of(rank, 64));
      say(first ? "ran" : first.error().message());
      if (settings.rank == 1) ::pause();
      const Status second = rank.run(sum_of(rank, 64));
      say(second ? "no error" : second.error().message());
      return "";
    } catch (const std::exception& error) {
      say(error.what());
      throw;
    }
  });
}

void faults(const cuda::Driver& driver, const Settings& settings, Findings& findings) {
  findings.check("a rank that calls something else is named",
                 [&] { return names_a_mismatch(driver); });
  findings.check("a limit is kept", [&] { return keeps_its_limit(driver); });
  findings.check("a rank that died is named", [&] { return names_a_death(settings.program); });
}

}  // namespace ringwood::gpu_check
