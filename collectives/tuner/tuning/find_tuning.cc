#include "collectives/tuner/tuning/find_tuning.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/tuner/machine/places.h"
#include "transports/base/error.h"
#include "transports/base/hash.h"
#include "transports/base/knobs/knobs.h"
#include "transports/base/owned_fd.h"

namespace ringwood {
namespace {

constexpr const char* kOff = "off";
constexpr const char* kRemedy = "run ringwood tune again, or set RINGWOOD_TUNING_FILE=off";

bool is_folder(const std::string& path) {
  struct stat what {};
  return ::stat(path.c_str(), &what) == 0 && S_ISDIR(what.st_mode);
}

std::string folder_of(const std::string& knob) { return knob.empty() ? cache_directory() : knob; }

std::string prefix_of(int ranks) { return fmt::format("tuning-{}-ranks-", ranks); }

// "" or why the file is not for this group.
std::string objection(const TuningFile& file, const TuningFingerprint& now) {
  const std::string differs = difference(file.fingerprint, now);
  return differs.empty() ? objection_to_rows(file) : differs;
}

void refuse_file(FoundTuning& found, const std::string& why) {
  found.refusal = refusal_of(found.path, why);
  found.text.clear();
  found.file.reset();
}

void judge(FoundTuning& found, const TuningFingerprint& now) try {
  found.text = read_tuning_text(found.path);
  found.file = parse_tuning_file(found.text);
  found.ranks = found.file->fingerprint.ranks();
  judge_tuning(found, now);
} catch (const Error& error) {
  refuse_file(found, error.cause);
}

// Files of as many ranks, the newest first.
std::vector<std::string> neighbours(const std::string& folder, int ranks) {
  std::vector<std::pair<std::filesystem::file_time_type, std::string>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with(prefix_of(ranks)))
      found.emplace_back(entry.last_write_time(error), entry.path().string());
  std::ranges::sort(found, std::greater());
  std::vector<std::string> paths;
  for (size_t i = 0; i < std::min<size_t>(found.size(), kMaxLookedAt); ++i)
    paths.push_back(found[i].second);
  return paths;
}

bool trusted(uid_t owner, bool named) { return named || owner == ::geteuid() || owner == 0; }

FoundTuning find_in(const std::string& folder, bool named, const TuningFingerprint& now) {
  FoundTuning found;
  found.path = tuning_path(folder, now);
  struct stat what {};
  const bool there = ::stat(found.path.c_str(), &what) == 0;
  if (there || errno != ENOENT) {
    found.expected = true;
    if (there && !trusted(what.st_uid, named))
      found.refusal = fmt::format(
          "tuning file {0} is not used: it belongs to user {1}; delete it and run ringwood tune "
          "again, or set RINGWOOD_TUNING_FILE={0} to trust it",
          found.path, what.st_uid);
    else
      judge(found, now);
    return found;
  }
  for (const std::string& path : neighbours(folder, now.ranks())) {
    FoundTuning other;
    other.path = path;
    judge(other, now);
    if (!other.refusal.empty()) return other;
  }
  return {};
}

}  // namespace

bool may_be_tuned(const std::string& knob) {
  if (knob == kOff) return false;
  if (!knob.empty() && !is_folder(knob)) return true;
  std::error_code error;
  const std::string folder = folder_of(knob);
  if (folder.empty()) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("tuning-")) return true;
  return error && !knob.empty();  // a folder that cannot be read, which its user will want to know
}

FoundTuning find_tuning(const std::string& knob, const TuningFingerprint& now) {
  if (knob == kOff || (knob.empty() && cache_directory().empty())) return {};
  if (knob.empty() || is_folder(knob)) return find_in(folder_of(knob), !knob.empty(), now);
  FoundTuning found;
  found.path = knob;
  found.expected = true;
  judge(found, now);
  return found;
}

void judge_tuning(FoundTuning& found, const TuningFingerprint& now) {
  const std::string why = objection(*found.file, now);
  if (!why.empty()) refuse_file(found, why);
}

std::string refusal_of(const std::string& path, const std::string& why) {
  const std::string text = fmt::format("tuning file {} is not used: {}", path, why);
  return text.find("ringwood tune") == text.npos ? fmt::format("{}; {}", text, kRemedy) : text;
}

std::vector<std::string> tuning_paths(const std::string& knob, int ranks) {
  const bool named = !knob.empty();
  if (knob == kOff || (!named && cache_directory().empty())) return {};
  if (named && !is_folder(knob)) return {knob};
  std::vector<std::string> paths = neighbours(folder_of(knob), ranks);
  std::erase_if(paths, [&](const std::string& path) {
    struct stat what {};
    return ::stat(path.c_str(), &what) != 0 || !trusted(what.st_uid, named);
  });
  return paths;
}

std::string tuning_folder(const std::string& knob) {
  if (is_folder(knob)) return knob;
  std::string folder = cache_directory();
  if (folder.empty())
    refuse("there is no folder for the tuning file: set HOME, or name a file with --output");
  return folder;
}

std::string tuning_path(const std::string& folder, const TuningFingerprint& f) {
  const std::string all = fmt::format("{}\n{}\n{}\n{}\n{:x}", print_places(f.hosts),
                                      print_places(f.nodes), f.hardware, f.knobs, f.table);
  return fmt::format("{}/{}{:016x}.txt", folder, prefix_of(f.ranks()), fnv1a_64(all));
}

std::string new_tuning_path(const std::string& knob, const TuningFingerprint& fingerprint) {
  if (!knob.empty() && knob != kOff && !is_folder(knob)) return knob;
  return tuning_path(tuning_folder(knob), fingerprint);
}

std::string read_tuning_text(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat what {};
  if (!file || ::fstat(file.get(), &what) != 0)
    refuse(fmt::format("it cannot be read: {}", std::strerror(errno)));
  if (!S_ISREG(what.st_mode)) refuse("it is no file");
  if (what.st_size > static_cast<off_t>(kMaxTuningText))
    refuse(fmt::format("{} bytes are more than the {} allowed", what.st_size, kMaxTuningText));
  std::string text(static_cast<size_t>(what.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t read = ::read(file.get(), text.data() + done, text.size() - done);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) refuse("it cannot be read to its end");
    done += static_cast<size_t>(read);
  }
  return text;
}

void write_tuning_file(const std::string& path, const TuningFile& file) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string text = print(file), fresh = fmt::format("{}.{}", path, ::getpid());
  bool written = false;
  {
    const OwnedFd out(
        ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    written =
        out && ::write(out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  if (written && ::rename(fresh.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  ::unlink(fresh.c_str());
  refuse(fmt::format("{} cannot be written: {}", path, why));
}

std::string link_knobs(const Options& o) {
  std::string text = fmt::format(
      "sockets:{},spin:{},shm:{},verbs:{}x{},interface:{},devices:{},transports:{}", o.tcp_sockets,
      o.spin_us, o.shm_ring_bytes, o.verbs.queue_pairs, o.verbs.ring_bytes, o.socket_interface,
      o.verbs.devices, fmt::join(o.transports, "+"));
  constexpr size_t kMax = 160;
  if (text.size() > kMax) text = fmt::format("{:016x}", fnv1a_64(text));
  for (char& c : text)
    if (!std::isgraph(static_cast<unsigned char>(c))) c = '_';
  return text;
}

std::string hardware_of(const std::vector<std::string>& facts) {
  constexpr size_t kMax = 4096;
  std::set<std::string> kinds(facts.begin(), facts.end());
  std::string text = fmt::format("{}", fmt::join(kinds, " | "));
  if (text.size() > kMax) text = fmt::format("{:016x}", fnv1a_64(text));
  for (char& c : text)
    if (!std::isprint(static_cast<unsigned char>(c))) c = ' ';
  // As a line of the file is read.
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace ringwood
