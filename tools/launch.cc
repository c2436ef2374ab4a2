#include "tools/launch.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/launch_fork.h"
#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/options.h"

namespace ringwood::tools {
namespace {

namespace fs = std::filesystem;

// The rendezvous folder of the ranks of one host. The first rank to come makes it; only rank 0, or
// a parent, removes it.
class RendezvousFolder {
 public:
  RendezvousFolder(fs::path path, bool removes) : path_(std::move(path)), removes_(removes) {
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
      throw Error(ErrorCode::system,
                  fmt::format("{}: {}", path_.string(), system_message("mkdir")));
    }
    struct stat info {};
    if (::lstat(path_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
      throw Error(
          ErrorCode::system,
          fmt::format("{} is not a private folder of this user; remove it or give --rendezvous",
                      path_.string()));
    }
  }
  ~RendezvousFolder() { remove(); }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;

  std::shared_ptr<Store> store() const { return file_store((path_ / "store").string()); }
  // Once: a later run under the same parent may have made the folder anew. Other ranks may still be
  // clearing up in it, and what they make for that while it is being removed keeps it: for a moment
  // it is tried again.
  void remove() noexcept {
    if (!std::exchange(removes_, false)) return;
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(200));
    std::error_code error;
    for (fs::remove_all(path_, error); error && !deadline.passed(); fs::remove_all(path_, error))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  fs::path path_;
  bool removes_;
};

// The 22nd field of /proc/<pid>/stat, counted after the command's closing parenthesis, which may
// contain anything.
std::string start_time(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  size_t at = text.rfind(')');
  for (int field = 3; field <= 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at + 1);
  }
  return at == std::string::npos ? "0" : text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

// A name that all ranks of one local launch know without talking: they have the same parent. Its
// start time keeps a recycled process number from meeting an old folder.
fs::path folder_of_parent() {
  const pid_t parent = ::getppid();
  return fs::temp_directory_path() /
         fmt::format("ringwood-{}-{}-{}", ::geteuid(), parent, start_time(parent));
}

bool all_ranks_are_here(const LaunchEnvironment& environment) {
  if (environment.local_size > 0) return environment.local_size == environment.world_size;
  return environment.master_addr.empty();
}

// On several hosts.
std::string distant_rendezvous(const LaunchPlan& plan) {
  return plan.options.rendezvous.empty() ? "env://" : plan.options.rendezvous;
}

// Begins with the rank that found it, as messages of the core do.
std::string describe(const Error& error, int rank) {
  if (error.code == ErrorCode::invalid_argument) return error.cause;
  return error.rank >= 0 ? error.message() : fmt::format("rank {}: {}", rank, error.message());
}

// Meets at a URL. Once all have met, a file that served for it goes, so that nothing of a run stays
// that is killed later.
Place meet_at(const std::string& url, int rank, const LaunchPlan& plan) {
  const Deadline deadline = Deadline::after(plan.options.init_timeout);
  const Options options = Options::from_environment();
  Place place{rank, plan.ranks, rendezvous(url, rank, plan.ranks, deadline, options).store, [] {}};
  if (rank == 0 && url.rfind("file://", 0) == 0) {
    place.met = [path = url.substr(7, url.find('?') - 7)] {
      std::error_code ignored;
      fs::remove(path, ignored);
    };
  }
  return place;
}

// Every rank gets the group's error; the one that found it and rank 0 print it.
int run_joined(const LaunchPlan& plan, const std::function<int(Place&)>& body) {
  const int rank = plan.environment.rank;
  try {
    if (!plan.options.rendezvous.empty() || !all_ranks_are_here(plan.environment)) {
      Place place = meet_at(distant_rendezvous(plan), rank, plan);
      return body(place);
    }
    RendezvousFolder folder(folder_of_parent(), rank == 0);
    Place place{rank, plan.ranks, folder.store(), [&folder] { folder.remove(); }};
    return body(place);
  } catch (const Error& error) {
    if (rank == 0 || error.rank < 0 || error.rank == rank) {
      fmt::print(stderr, "ringwood: {}\n", describe(error, rank));
    }
    return error.code == ErrorCode::invalid_argument ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ringwood: rank {}: {}\n", rank, error.what());
    return 1;
  }
}

int run_forked(const LaunchPlan& plan, const std::function<int(Place&)>& body) {
  std::string name = (fs::temp_directory_path() / "ringwood-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorCode::system, fmt::format("{}: {}; set TMPDIR to a folder that can be written",
                                               name, system_message("mkdtemp")));
  }
  RendezvousFolder folder(name, true);
  const ForkOptions how{plan.ranks, plan.options.pin, plan.options.finishes};
  return fork_ranks(how, [&](int rank, const ErrorReport& report) {
    try {
      Place place{rank, plan.ranks, nullptr, [&folder] { folder.remove(); }};
      if (plan.options.rendezvous.empty()) {
        place.store = folder.store();
      } else {
        place = meet_at(plan.options.rendezvous, rank, plan);
      }
      return body(place);
    } catch (const Error& error) {
      report(describe(error, rank));
      return error.code == ErrorCode::invalid_argument ? 2 : 1;
    } catch (const std::exception& error) {
      report(fmt::format("rank {}: {}", rank, error.what()));
      return 1;
    }
  });
}

}  // namespace

LaunchPlan plan_launch(const LaunchOptions& options) {
  LaunchPlan plan{options, read_launch_environment(), 1, false};
  const LaunchEnvironment& found = plan.environment;
  const bool launched = found.rank >= 0 && found.world_size >= 1;
  const std::string launcher = found.launcher == "env" ? "RANK and WORLD_SIZE" : found.launcher;
  const int wanted = options.ranks > 0 ? options.ranks : options.needed;
  plan.joins = launched && !(found.world_size == 1 && wanted > 1);
  if (!plan.joins) {
    plan.ranks = wanted > 0 ? wanted : 2;
    if (options.needed > 0) require_ranks(options.needed, plan.ranks);
    return plan;
  }
  if (found.rank >= found.world_size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} gives rank {} of {}; ranks count from 0", launcher, found.rank,
                            found.world_size));
  }
  if (options.ranks > 0 && options.ranks != found.world_size) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--ranks {} contradicts the {} ranks of {}; leave --ranks away to join them",
                    options.ranks, found.world_size, launcher));
  }
  plan.ranks = found.world_size;
  if (options.needed > 0) require_ranks(options.needed, plan.ranks, launcher);
  return plan;
}

void require_ranks(int needed, int given, const std::string& launcher) {
  if (needed == given) return;
  const char* const are = needed == 1 ? "rank" : "ranks";
  throw Error(ErrorCode::invalid_argument,
              launcher.empty()
                  ? fmt::format("these schedules are for {} {}, {} were given: --ranks {}", needed,
                                are, given, needed)
                  : fmt::format("these schedules are for {} {}, {} were started by {}: start {}",
                                needed, are, given, launcher, needed));
}

int launch(const LaunchPlan& plan, const std::function<int(Place&)>& body) {
  return plan.joins ? run_joined(plan, body) : run_forked(plan, body);
}

}  // namespace ringwood::tools
