#include "tools/doctor/collect/tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

#include "transports/base/error.h"
#include "transports/base/owned_fd.h"

namespace ringwood::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxNames = 4096;

// Whether a path, with its links followed, is in the folder.
bool below(const fs::path& folder, const fs::path& path) {
  const auto [end, at] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

std::optional<std::string> read_all(const fs::path& path, std::string& why) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    why = std::strerror(errno);
    return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) {
    why = "not a regular file";
    return std::nullopt;
  }
  std::string text;
  char buffer[16384];
  while (text.size() < kMaxBytes) {
    const ssize_t got =
        ::read(file.get(), buffer, std::min(sizeof buffer, kMaxBytes - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      why = std::strerror(errno);
      return std::nullopt;
    }
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

Tree::Tree(const std::string& root) {
  std::error_code error;
  root_ = fs::canonical(root, error);
  if (error || !fs::is_directory(root_, error))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--root {}: there is no such folder; name one that contains a copy of "
                            "another host's sys and proc",
                            root));
  live_ = root_ == "/";
}

std::optional<std::string> Tree::text(const std::string& path) const {
  std::string why;
  return text(path, why);
}

std::optional<std::string> Tree::text(const std::string& path, std::string& why) const {
  std::error_code error;
  const fs::path full = fs::canonical(root_ / fs::path(path).relative_path(), error);
  if (error) {
    why = error.message();
    return std::nullopt;
  }
  if (!below(root_, full)) {
    why = "a link that leads out of the tree";
    return std::nullopt;
  }
  auto all = read_all(full, why);
  if (all) all->erase(all->find_last_not_of(" \t\r\n") + 1);
  return all;
}

std::optional<int64_t> Tree::number(const std::string& path) const {
  const auto found = text(path);
  return found ? leading_number(*found) : std::nullopt;
}

std::vector<std::string> Tree::names(const std::string& path) const {
  std::vector<std::string> all;
  std::error_code error;
  const fs::path full = fs::canonical(root_ / fs::path(path).relative_path(), error);
  if (error || !below(root_, full)) return all;
  for (fs::directory_iterator at(full, error), end; !error && at != end && all.size() < kMaxNames;
       at.increment(error))
    all.push_back(at->path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}

std::optional<int64_t> Tree::count(const std::string& path) const {
  constexpr int64_t kMost = 1'000'000;
  std::error_code error;
  const fs::path full = fs::canonical(root_ / fs::path(path).relative_path(), error);
  if (error || !below(root_, full)) return std::nullopt;
  int64_t all = 0;
  for (fs::directory_iterator at(full, error), end; !error && at != end && all < kMost;
       at.increment(error))
    ++all;
  return error ? std::nullopt : std::optional(all);
}

bool Tree::exists(const std::string& path) const { return !resolved(path).empty(); }

std::string Tree::resolved(const std::string& path) const {
  std::error_code error;
  const fs::path full = fs::canonical(root_ / fs::path(path).relative_path(), error);
  if (error || !below(root_, full)) return {};
  return (fs::path("/") / full.lexically_relative(root_)).string();
}

std::string Tree::target(const std::string& path) const {
  if (const std::string found = resolved(path); !found.empty())
    return fs::path(found).filename().string();
  // A copy may have the link and not what it leads to.
  std::error_code error;
  const fs::path place = fs::path(path).relative_path();
  const fs::path folder = fs::canonical(root_ / place.parent_path(), error);
  if (error || !below(root_, folder)) return {};
  return fs::read_symlink(folder / place.filename(), error).filename().string();
}

std::optional<std::string> Tree::printed(const std::string& command) const {
  if (live_) return std::nullopt;
  std::string file = command;
  for (char& c : file)
    if (std::strchr(" /,=", c) != nullptr) c = '_';
  for (const std::string& folder : names("sos_commands"))
    if (auto found = text(fmt::format("sos_commands/{}/{}", folder, file))) return found;
  return std::nullopt;
}

std::optional<std::string> Tree::printed_first(std::initializer_list<const char*> commands) const {
  for (const char* command : commands)
    if (auto found = printed(command)) return found;
  return std::nullopt;
}

void Tree::miss(const std::string& need, const std::string& where, const std::string& reason) {
  gaps_.push_back({need, where, reason});
}

std::optional<std::string> Tree::needed(const std::string& need, const std::string& where,
                                        const std::string& path, bool must) {
  std::string why;
  auto found = text(path, why);
  if (!found && (must || exists(path))) miss(need, where, fmt::format("{}: {}", path, why));
  return found;
}

std::optional<int64_t> leading_number(const std::string& text, int base) {
  const size_t at = text.find_first_not_of(" \t");
  if (at == text.npos) return std::nullopt;
  const size_t skip = base == 16 && text.compare(at, 2, "0x") == 0 ? 2 : 0;
  int64_t value = 0;
  const auto done =
      std::from_chars(text.data() + at + skip, text.data() + text.size(), value, base);
  if (done.ec != std::errc()) return std::nullopt;
  return value;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool begins_with(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}

}  // namespace ringwood::tools::doctor
