// A file whose content is believed: a secret, or the store of a job.
//
// 1. It is a regular file that belongs to this user or to root, and other users may neither read
//    nor write it.
// 2. It is checked after it was opened, so it cannot be exchanged in between.
// 3. A file that may be created is opened under its own name only: a symbolic link that somebody
//    else has put there would choose another file. Secrets may be behind links: Kubernetes mounts
//    them so.
//
// Any thread.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "transports/base/error.h"
#include "transports/base/owned_fd.h"

namespace ringwood {

// Some file systems choose the owner of every file: NFS makes root's files nobody's. True if a new
// file beside `path` gets this owner.
inline bool new_files_belong_to(uid_t owner, const std::string& path) {
  std::string name = path + ".XXXXXX";
  const OwnedFd file(mkostemp(name.data(), O_CLOEXEC));
  if (!file) return false;
  unlink(name.c_str());
  struct stat status {};
  return fstat(file.get(), &status) == 0 && status.st_uid == owner;
}

// Why the content of the open file is not believed; "": it is.
inline std::string objection_to_file(int fd, const std::string& path, bool may_create) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return system_message("fstat");
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if ((status.st_mode & 077) != 0) return "other users may read it";
  const uid_t owner = status.st_uid;
  if (owner == geteuid() || owner == 0) return "";
  if (may_create && new_files_belong_to(owner, path)) return "";
  return fmt::format("it belongs to another user, {}", owner);
}

// `file` is empty if it was refused; then `why` has the reason.
struct PrivateFile {
  OwnedFd file;
  std::string why;
};

// `flags` are open()'s; O_CREAT makes a file that only this user may read and write.
inline PrivateFile open_private_file(const std::string& path, int flags) {
  const bool may_create = (flags & O_CREAT) != 0;
  // A pipe or a terminal must neither stop this process nor become its own.
  flags |= O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (may_create ? O_NOFOLLOW : 0);
  OwnedFd file(open(path.c_str(), flags, 0600));
  if (!file && errno == ELOOP && may_create) return {OwnedFd(), "it is a symbolic link"};
  if (!file) return {OwnedFd(), system_message("open")};
  std::string why = objection_to_file(file.get(), path, may_create);
  if (!why.empty()) file = OwnedFd();
  return {std::move(file), std::move(why)};
}

}  // namespace ringwood
