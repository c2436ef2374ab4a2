#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>

#include <fmt/format.h>

#include "collectives/tuner/machine/calibrate.h"
#include "transports/base/error.h"
#include "transports/base/hash.h"
#include "transports/base/owned_fd.h"

namespace ringwood {
namespace {

constexpr size_t kMaxFile = 64 << 10;

void make_directories(const std::string& path) {
  for (size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1))
    ::mkdir(path.substr(0, at).c_str(), 0700);
}

bool read_whole(const std::string& path, std::string& text) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat what {};
  if (!file || ::fstat(file.get(), &what) != 0 || !S_ISREG(what.st_mode) ||
      what.st_uid != ::geteuid() || what.st_size > static_cast<off_t>(kMaxFile))
    return false;
  text.resize(static_cast<size_t>(what.st_size));
  return ::read(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

std::string parameters_path(const std::string& directory, const std::string& title) {
  return fmt::format("{}/{}-{:016x}", directory, title.substr(0, title.find(' ')), fnv1a_64(title));
}

std::string calibration_path(const std::string& directory) {
  return fmt::format("{}/calibration-{:016x}", directory, fnv1a_64(host_description()));
}

bool write_calibration(const std::string& path, const MachineModel& machine) {
  return write_parameters(path, host_description(), machine);
}

bool read_calibration(const std::string& path, MachineModel& machine) {
  return read_parameters(path, host_description(), machine);
}

bool write_parameters(const std::string& path, const std::string& title,
                      const MachineModel& machine) {
  static std::atomic<int> count{0};
  make_directories(path);
  const std::string body = fmt::format("{}\n{}\n", title, print(machine));
  const std::string text = fmt::format("{}{:016x}\n", body, fnv1a_64(body));
  const std::string fresh = fmt::format("{}.{}.{}", path, ::getpid(), count.fetch_add(1));
  bool written = false;
  {
    const OwnedFd file(
        ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return false;
    written = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  if (written && ::rename(fresh.c_str(), path.c_str()) == 0) return true;
  ::unlink(fresh.c_str());
  return false;
}

bool read_parameters(const std::string& path, const std::string& title, MachineModel& machine) {
  std::string text;
  if (!read_whole(path, text)) return false;
  const std::string first = title + "\n";
  const size_t end = text.find('\n', first.size());
  if (text.compare(0, first.size(), first) != 0 || end == text.npos) return false;
  const std::string body = text.substr(0, end + 1);
  if (text.substr(end + 1) != fmt::format("{:016x}\n", fnv1a_64(body))) return false;
  try {
    machine = parse_machine_model(body.substr(first.size(), end - first.size()));
    return true;
  } catch (const Error&) {
    return false;
  }
}

MachineModel calibration(const std::string& directory, CalibrationUse use) {
  MachineModel machine;
  if (use == CalibrationUse::off) return machine;
  const std::string path = directory.empty() ? "" : calibration_path(directory);
  if (use == CalibrationUse::keep && !path.empty() && read_calibration(path, machine))
    return machine;
  bool disturbed = false;
  machine = measure_host(&disturbed);
  if (!path.empty() && !disturbed) write_calibration(path, machine);
  return machine;
}

CalibrationUse calibration_use(const std::string& knob) {
  return knob == "off"       ? CalibrationUse::off
         : knob == "refresh" ? CalibrationUse::refresh
                             : CalibrationUse::keep;
}

}  // namespace ringwood
