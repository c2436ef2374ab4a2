// The older handles between processes, of memory from cuMemAlloc. The exporting process listens at
// an abstract Unix socket, which has no file and vanishes with it; whoever opens a handle connects
// and is sent the descriptor of the pages.
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/cuda/double/captures.h"
#include "tests/cuda/double/memory.h"

using namespace fake_cuda;

namespace {

// What the 64 bytes of a handle hold.
struct Content {
  char socket[32];
  uint64_t id;         // of the mapping in the exporting process
  uint64_t asked_for;  // bytes
  int32_t pid;
};
static_assert(sizeof(Content) <= sizeof(CUipcMemHandle));

socklen_t address_of(const char* name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name));
}

void send_descriptor(int to, int fd) {
  char byte = 1;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  ::sendmsg(to, &message, MSG_NOSIGNAL);
}

int receive_descriptor(int from) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(from, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header && header->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

// The descriptor stays open until it is sent, whoever frees the memory meanwhile.
std::shared_ptr<Pages> pages_of(uint64_t id) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  for (const auto& [at, mapped] : all.mapped)
    if (mapped.id == id) return mapped.pages;
  return nullptr;
}

void serve(int listener) {
  for (;;) {
    const int peer = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) return;
    uint64_t id = 0;
    if (::recv(peer, &id, sizeof id, MSG_WAITALL) == sizeof id)
      if (const auto pages = pages_of(id)) send_descriptor(peer, pages->fd());
    ::close(peer);
  }
}

// The name of this process's socket, which is there from the first export on; "": refused.
const std::string& own_socket() {
  static const auto* const name = new std::string([]() -> std::string {
    uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return "";
    char text[32];
    std::snprintf(text, sizeof text, "fake-cuda-%016llx", static_cast<unsigned long long>(random));
    const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address;
    const socklen_t length = address_of(text, address);
    if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener, 64) != 0)
      return "";
    std::thread(serve, listener).detach();
    return text;
  }());
  return *name;
}

// Null: the exporting process is gone, or has freed the memory.
std::shared_ptr<Pages> ask_for_pages(const Content& content) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{10, 0};  // a child of the exporting process may hold the socket open
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_un address;
  const socklen_t length = address_of(content.socket, address);
  std::shared_ptr<Pages> pages;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
      ::send(fd, &content.id, sizeof content.id, MSG_NOSIGNAL) == sizeof content.id) {
    const int received = receive_descriptor(fd);
    if (received >= 0) pages = Pages::of(received);
    if (received >= 0) ::close(received);
  }
  ::close(fd);
  return pages;
}

// Opened handles of this process: a second opening counts.
struct Opened {
  std::mutex mutex;
  struct One {
    CUdeviceptr at;
    int count;
  };
  std::map<std::pair<CUcontext, std::string>, One> all;
};

}  // namespace

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  Content content{};
  {
    Tables& all = tables();
    std::lock_guard lock(all.mutex);
    const auto found = mapping_at(all, address);
    if (found == all.mapped.end() || found->second.origin != Origin::allocated)
      return CUDA_ERROR_INVALID_VALUE;
    content.id = found->second.id;
    content.asked_for = found->second.asked_for;
  }
  if (own_socket().empty()) return CUDA_ERROR_OPERATING_SYSTEM;
  std::snprintf(content.socket, sizeof content.socket, "%s", own_socket().c_str());
  content.pid = ::getpid();
  *handle = {};
  std::memcpy(handle, &content, sizeof content);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  Content content;
  std::memcpy(&content, &handle, sizeof content);
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || content.id == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (content.pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // NVIDIA's driver does so
  Opened& opened = forever<Opened>();
  std::lock_guard lock(opened.mutex);
  const std::string key(reinterpret_cast<const char*>(&handle), sizeof handle);
  Opened::One& one = opened.all[{current_context(), key}];
  if (one.count == 0) {
    auto pages = ask_for_pages(content);
    Tables& all = tables();
    std::lock_guard tables_lock(all.mutex);
    const auto at = pages ? map_anywhere(std::move(pages), content.asked_for, Origin::opened,
                                         current_context()->device)
                          : std::nullopt;
    if (!at) {
      opened.all.erase({current_context(), key});
      return CUDA_ERROR_INVALID_VALUE;
    }
    one.at = *at;
  }
  ++one.count;
  hold(Held::opened_handle, 1);
  *address = one.at;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  Opened& opened = forever<Opened>();
  std::lock_guard lock(opened.mutex);
  for (auto entry = opened.all.begin(); entry != opened.all.end(); ++entry) {
    if (entry->second.at != address || entry->first.first != current_context()) continue;
    hold(Held::opened_handle, -1);
    if (--entry->second.count > 0) return CUDA_SUCCESS;
    opened.all.erase(entry);
    finish_all(*current_context());
    std::lock_guard tables_lock(tables().mutex);
    unmap_anywhere(address, Origin::opened);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
}
