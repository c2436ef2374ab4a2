// Other processes of this program: started at once, each says one line, and none outlives the
// object.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "transports/base/owned_fd.h"

namespace ringwood::gpu_check {

class Process final {
 public:
  // Descriptor 3 of the process is the other end of socket().
  Process(const std::string& program, const std::vector<std::string>& arguments);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  int socket() const { return socket_.get(); }
  // The next line of its standard output; "" when it ended, or was silent for so long.
  std::string line(int seconds);
  void kill();

 private:
  pid_t pid_ = -1;
  OwnedFd socket_, output_;
  std::string read_;
};

// A folder that ends with the object.
class Folder final {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ringwood::gpu_check
