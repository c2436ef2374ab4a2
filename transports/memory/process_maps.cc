#include "transports/memory/process_maps.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "transports/base/error.h"
#include "transports/base/input_file.h"

namespace ringwood {
namespace {

// struct procmap_query of <linux/fs.h>, which is older than 6.11 on many build machines.
struct Query {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset;
  uint64_t inode;
  uint32_t dev_major, dev_minor;
  uint32_t vma_name_size, build_id_size;
  uint64_t vma_name_addr, build_id_addr;
};
static_assert(sizeof(Query) == 104);
constexpr unsigned long kQuery = _IOWR('f', 17, Query);
constexpr uint64_t kReadable = 1, kWritable = 2, kShared = 8, kOrNext = 16, kOfFile = 32;

std::optional<Mapping> query(int fd, uintptr_t address, uint64_t flags) noexcept {
  Query q{};
  q.size = sizeof q;
  q.query_flags = flags;
  q.query_addr = address;
  if (::ioctl(fd, kQuery, &q) != 0) return std::nullopt;
  return Mapping{q.vma_start,
                 q.vma_end,
                 q.vma_offset,
                 {q.inode, q.dev_major, q.dev_minor},
                 (q.vma_flags & kReadable) != 0,
                 (q.vma_flags & kWritable) != 0,
                 (q.vma_flags & kShared) != 0};
}

// The head of one mapping in /proc/self/smaps.
struct Head {
  uintptr_t begin = 0, end = 0;
  std::string permissions, name;
  FileId file;
};

bool read_head(const std::string& line, Head& head) {
  unsigned long begin = 0, end = 0, offset = 0, inode = 0;
  unsigned major = 0, minor = 0;
  char permissions[5] = {};
  int name_at = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu %n", &begin, &end, permissions, &offset,
                  &major, &minor, &inode, &name_at) != 7)
    return false;
  head = {
      begin, end, permissions, line.substr(static_cast<size_t>(name_at)), {inode, major, minor}};
  return true;
}

bool plain_head(const Head& head) {
  const bool named_otherwise = !head.name.empty() && !head.name.starts_with("[anon:");
  return head.permissions == "rw-p" && head.file.inode == 0 && !named_otherwise;
}

// Readable, writable, may be so, accounted or not, written lately, huge pages wanted or not.
bool plain_flags(const std::string& flags) {
  static constexpr const char* kPlain[] = {"rd", "wr", "mr", "mw", "me",
                                           "ac", "nr", "sd", "hg", "nh"};
  std::istringstream words(flags);
  for (std::string word; words >> word;)
    if (std::find(std::begin(kPlain), std::end(kPlain), word) == std::end(kPlain)) return false;
  return true;
}

}  // namespace

FileId FileId::of(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) throw Error(ErrorCode::system, system_message("fstat"));
  return {file.st_ino, major(file.st_dev), minor(file.st_dev)};
}

ProcessMaps::ProcessMaps() : fd_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {
  if (!fd_) throw Error(ErrorCode::system, system_message("/proc/self/maps"));
  close_on_fork(fd_.get());
  if (!at(reinterpret_cast<uintptr_t>(this)))
    throw Error(ErrorCode::system, system_message("asking for mappings (Linux 6.11 and later)"));
}

std::optional<Mapping> ProcessMaps::at(uintptr_t address) const noexcept {
  return query(fd_.get(), address, 0);
}

std::optional<Mapping> ProcessMaps::next_shared(int fd, uintptr_t address) noexcept {
  return query(fd, address, kShared | kOfFile | kOrNext);
}

std::vector<Mapping> ProcessMaps::shared_mappings_of(const FileId& file) const {
  std::vector<Mapping> found;
  for (uintptr_t at = 0;;) {
    const auto mapping = next_shared(fd_.get(), at);
    if (!mapping) return found;
    if (mapping->file == file) found.push_back(*mapping);
    at = mapping->end;
  }
}

bool ProcessMaps::maps(uintptr_t begin, uintptr_t end, const FileId& file,
                       uint64_t offset) const noexcept {
  for (uintptr_t next = begin; next < end;) {
    const auto mapping = at(next);
    if (!mapping || !mapping->shared || !mapping->readable || !mapping->writable ||
        !(mapping->file == file))
      return false;
    if (mapping->offset + (next - mapping->begin) != offset + (next - begin)) return false;
    next = mapping->end;
  }
  return true;
}

bool ProcessMaps::ordinary(uintptr_t begin, uintptr_t end, const FileId& file) const {
  InputFile smaps("/proc/self/smaps");
  uintptr_t next = begin;
  Head head;
  bool below_is_closed = false;
  for (std::string line; next < end && std::getline(smaps, line);) {
    const Head before = head;
    if (read_head(line, head)) {
      below_is_closed = before.end == head.begin && before.permissions.starts_with("---");
      continue;
    }
    if (!line.starts_with("VmFlags:") || head.end <= next) continue;
    if (head.begin > next) return false;
    const bool ours = head.file == file && head.permissions == "rw-s";
    // A guard below is the mark of a thread's stack.
    if (!ours && (below_is_closed || !plain_head(head) || !plain_flags(line.substr(8))))
      return false;
    next = head.end;
  }
  return next >= end;
}

}  // namespace ringwood
