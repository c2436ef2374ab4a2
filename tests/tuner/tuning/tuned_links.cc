// Groups whose tuning file sets their links: all ranks have the settings, what a user has chosen
// goes before them, and a file that is not for the group sets nothing, or is said to have done so.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/runtime/group_parts.h"
#include "collectives/tuner/tuning/find_tuning.h"
#include "collectives/tuner/tuning/group_tuning.h"
#include "tests/base/scoped_environment.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "transports/base/clock.h"

namespace ringwood::testing {
namespace {

constexpr int kRanks = 3;
constexpr const char* kSockets = "RINGWOOD_TCP_SOCKETS";

using OptionsOf = std::function<Options(int rank)>;

// Connections between sockets that this process has open: both ends of each are here.
int connections() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      ++count;
  }
  return count / 2;
}

struct Seen {
  std::vector<LinkSettings> settings{kRanks};
  std::vector<bool> tuned = std::vector<bool>(kRanks);
  int connections = 0;
  std::string log;
};

Seen seen_in_group(const OptionsOf& options) {
  Seen seen;
  std::mutex mutex;
  ::testing::internal::CaptureStderr();
  run_ranks(kRanks, options, [&](Communicator& c) {
    must(c.barrier());
    {
      const std::lock_guard lock(mutex);
      const auto rank = static_cast<size_t>(c.rank());
      seen.settings[rank] = parts_of(c).mesh().link_settings;
      seen.tuned[rank] =
          c.choice(Collective::all_reduce, 400, DataType::float32, ReduceOp::sum).tuned;
      seen.connections = connections();
    }
    float sum = static_cast<float>(1 + c.rank());
    must(c.all_reduce(&sum, 1, DataType::float32, ReduceOp::sum));
    EXPECT_EQ(sum, 6);
    must(c.barrier());
  });
  seen.log = ::testing::internal::GetCapturedStderr();
  return seen;
}

// Only rank 0's file matters.
OptionsOf options_with(const std::string& knob,
                       const std::function<void(int rank, Options&)>& change = {}) {
  return [=](int rank) {
    Options o = options_for("tcp", rank);
    o.log_level = LogLevel::info;
    o.tuning_file = rank == 0 ? knob : "off";
    if (change) change(rank, o);
    return o;
  };
}

// As `ringwood tune --links` would write it, where so many sockets were taken.
TuningFile file_for(int sockets) {
  TuningFile file;
  file.measured = "2026-11-23";
  file.version = "0.1.0";
  std::mutex mutex;
  run_ranks(kRanks, options_with("off"), [&](Communicator& c) {
    Options options = options_for("tcp", 0);
    options.tcp_sockets = sockets;
    const TuningFingerprint own = own_fingerprint(parts_of(c).mesh(), options);
    const std::lock_guard lock(mutex);
    if (c.rank() == 0) file.fingerprint = own;
  });
  file.links = {{kSockets, std::to_string(sockets)}};
  TunedRange range;
  range.algorithm = range.proved = "ring";
  range.to = 1 << 20;
  range.with = "float32,sum,private";
  range.schedule = schedules_hash(schedules_of(file, range));
  file.ranges = {range};
  return file;
}

// One socket by default: the cores are not free, or the user says so.
int connections_with(int sockets) {
  return seen_in_group(options_with("off", [&](int, Options& o) { o.tcp_sockets = sockets; }))
      .connections;
}

const std::vector<bool> kTuned(kRanks, true), kNotTuned(kRanks, false);
const std::vector<LinkSettings> kNoSettings(kRanks);

TEST(TunedLinks, AreSetOnAllRanks) {
  const TemporaryPath path;
  const TuningFile file = file_for(3);
  write_tuning_file(path.path(), file);
  const int one = connections_with(1), three = connections_with(3);
  EXPECT_GT(three, one + 2 * kRanks);
  const Seen seen = seen_in_group(options_with(path.path()));
  EXPECT_EQ(seen.settings, std::vector<LinkSettings>(kRanks, file.links));
  EXPECT_EQ(seen.tuned, kTuned);
  EXPECT_EQ(seen.connections, three);
  EXPECT_PRED2(contains, seen.log,
               "INFO tuning: tuning file " + path.path() +
                   " sets the links of all ranks: RINGWOOD_TCP_SOCKETS=3\n");
  EXPECT_PRED2(contains, seen.log, "measured 2026-11-23, links RINGWOOD_TCP_SOCKETS=3\n");
  EXPECT_FALSE(contains(seen.log, "is not used"));
  // A file of the same with no settings is for groups that have them.
  TuningFile before = file;
  before.links.clear();
  write_tuning_file(path.path(), before);
  const Seen without = seen_in_group(options_with(path.path()));
  EXPECT_EQ(without.settings, kNoSettings);
  EXPECT_EQ(without.tuned, kNotTuned);
  EXPECT_PRED2(contains, without.log,
               "the links' knobs are 'sockets:0', but 'sockets:3' when it was tuned");
  const auto with_them = [](int, Options& o) { o.tcp_sockets = 3; };
  EXPECT_EQ(seen_in_group(options_with(path.path(), with_them)).tuned, kTuned);
}

TEST(TunedLinks, AreTheUsersFirst) {
  const TuningFile file = file_for(3);
  for (const int who : {0, 1, 2}) {
    const TemporaryPath path;
    write_tuning_file(path.path(), file);
    const auto chosen = [who](int value) {
      return [=](int rank, Options& o) {
        if (rank == who) o.tcp_sockets = value;
      };
    };
    const Seen other = seen_in_group(options_with(path.path(), chosen(2)));
    EXPECT_EQ(other.settings, kNoSettings);
    EXPECT_EQ(other.tuned, kNotTuned);
    const std::string why =
        "WARN tuning: tuning file " + path.path() +
        " is not used: RINGWOOD_TCP_SOCKETS=2 is set on rank " + std::to_string(who) +
        ", but the file is for groups with RINGWOOD_TCP_SOCKETS=3; run ringwood tune again, or ";
    EXPECT_PRED2(contains, other.log, why);
    const Seen same = seen_in_group(options_with(path.path(), chosen(3)));
    EXPECT_EQ(same.settings, std::vector<LinkSettings>(kRanks, file.links));
    EXPECT_EQ(same.tuned, kTuned);
  }
  // The default is chosen, too, where a variable says it.
  const TemporaryPath path;
  write_tuning_file(path.path(), file);
  const ScopedEnvironment environment(Environment{{kSockets, "0"}});
  EXPECT_EQ(seen_in_group(options_with(path.path())).settings, kNoSettings);
}

TEST(TunedLinks, OfAFileForOthersAreNotTaken) {
  const TuningFile file = file_for(3);
  const struct {
    const char* what;
    std::function<void(TuningFile&)> change;
  } cases[] = {
      {"the hardware is '", [](TuningFile& f) { f.fingerprint.hardware = "another one; tcp"; }},
      {"the table of algorithms is '", [](TuningFile& f) { f.fingerprint.table ^= 1; }},
      {"the ranks' hosts are '",
       [](TuningFile& f) {
         f.fingerprint.hosts = {0, 0, 1};
       }},
      {"the links' knobs are '", [](TuningFile& f) { f.links[0].value = "4"; }},
      {"the number of ranks is '3'",
       [](TuningFile& f) {
         f.fingerprint.hosts = {0, 0, 0, 0};
         f.ranges.clear();
       }},
  };
  for (const auto& c : cases) {
    const TemporaryPath path;
    TuningFile other = file;
    c.change(other);
    write_tuning_file(path.path(), other);
    const Seen seen = seen_in_group(options_with(path.path()));
    EXPECT_EQ(seen.settings, kNoSettings);
    EXPECT_EQ(seen.tuned, kNotTuned);
    EXPECT_PRED2(contains, seen.log, "tuning file " + path.path() + " is not used: ");
    EXPECT_PRED2(contains, seen.log, c.what);
    EXPECT_FALSE(contains(seen.log, "sets the links"));
  }
}

// Which transports are in use is not known before there are links.
TEST(TunedLinks, OfAFileThatIsRefusedAfterwardsAreNotSilent) {
  const TemporaryPath path;
  TuningFile file = file_for(3);
  std::string& hardware = file.fingerprint.hardware;
  hardware.replace(hardware.rfind("; ") + 2, std::string::npos, "verbs");
  write_tuning_file(path.path(), file);
  for (int group = 0; group < 2; ++group) {
    const Seen seen = seen_in_group(options_with(path.path()));
    EXPECT_EQ(seen.settings, std::vector<LinkSettings>(kRanks, file.links));
    EXPECT_EQ(seen.tuned, kNotTuned);
    const std::string warning = seen.log.substr(std::min(seen.log.find("WARN"), seen.log.size()));
    EXPECT_PRED2(contains, warning, "is not used: the hardware is '");
    EXPECT_PRED2(contains, warning,
                 "; the links of this group have its settings all the same: "
                 "RINGWOOD_TCP_SOCKETS=3\n");
  }
}

TEST(TunedLinks, AreFoundInAFolderTheNewestFirst) {
  const TemporaryPath folder;
  std::filesystem::create_directory(folder.path());
  const TuningFile three = file_for(3), two = file_for(2);
  TuningFile stale = file_for(4);
  stale.fingerprint.hardware = "another one; tcp";
  auto when = std::filesystem::file_time_type::clock::now();
  for (const TuningFile* file : std::vector<const TuningFile*>{&stale, &two, &three}) {
    const std::string path = tuning_path(folder.path(), file->fingerprint);
    write_tuning_file(path, *file);
    std::filesystem::last_write_time(path, when);
    when -= std::chrono::hours(1);
  }
  const Seen seen = seen_in_group(options_with(folder.path()));
  EXPECT_EQ(seen.settings, std::vector<LinkSettings>(kRanks, two.links));
  EXPECT_EQ(seen.tuned, kTuned);
  // The newest that is for this group, which a user may decide.
  const auto chosen = [](int rank, Options& o) {
    if (rank == 1) o.tcp_sockets = 3;
  };
  EXPECT_EQ(seen_in_group(options_with(folder.path(), chosen)).settings,
            std::vector<LinkSettings>(kRanks, three.links));
  std::filesystem::remove_all(folder.path());
}

}  // namespace
}  // namespace ringwood::testing
