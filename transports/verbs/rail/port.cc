#include "transports/verbs/rail/port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "transports/base/error.h"
#include "transports/base/log.h"
#include "transports/base/numa.h"

namespace ringwood::verbs {
namespace {

// The kernel takes answers of less than 64 KiB.
constexpr size_t kMaxGids = 65535 / sizeof(ibv_gid_entry);

// An interface of another network namespace has no name here.
void describe_interface(uint32_t number, Gid& gid) {
  char name[IF_NAMESIZE] = "";
  if (number == 0 || !::if_indextoname(number, name)) return;
  gid.interface = name;
  gid.vlan = ::access(fmt::format("/proc/net/vlan/{}", name).c_str(), F_OK) == 0;
  ifreq request{};
  std::memcpy(request.ifr_name, name, sizeof name);
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (::ioctl(fd, SIOCGIFFLAGS, &request) == 0)
    gid.up = (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
  ::close(fd);
}

std::vector<Gid> gid_table(const Library& library, ibv_context* context, int port) {
  std::vector<ibv_gid_entry> entries(kMaxGids);
  const ssize_t count =
      library.query_gid_table(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  std::vector<Gid> table;
  for (ssize_t i = 0; i < count; ++i) {
    if (entries[i].port_num != static_cast<uint32_t>(port)) continue;
    Gid gid;
    std::memcpy(gid.bytes.data(), entries[i].gid.raw, gid.bytes.size());
    gid.index = static_cast<int>(entries[i].gid_index);
    gid.type = entries[i].gid_type == IBV_GID_TYPE_IB        ? GidType::infiniband
               : entries[i].gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::roce_v1
                                                             : GidType::roce_v2;
    describe_interface(entries[i].ndev_ifindex, gid);
    table.push_back(std::move(gid));
  }
  return table;
}

const char* to_string(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_NOP: return "not there";
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initialising (no subnet manager?)";
    case IBV_PORT_ARMED: return "armed (no subnet manager?)";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "active, deferred";
  }
  return "in an unknown state";
}

}  // namespace

void make_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

Port::Port(const Library& library, ibv_context* context, int number) noexcept
    : library_(library), context_(context), number_(number) {
  close_on_fork(context_->cmd_fd);
  close_on_fork(context_->async_fd);
  process_ = current_pid();
}

Port::~Port() {
  if (inherited()) return;
  forget_on_fork(context_->cmd_fd);
  forget_on_fork(context_->async_fd);
  library_.close_device(context_);
}

bool Port::open(const VerbsOptions& options, std::string& why) {
  address_.name = fmt::format("{}/{}", library_.get_device_name(context_->device), number_);
  address_.node = device_numa_node(context_->device->ibdev_path);
  return ask(options, why);
}

bool Port::ask(const VerbsOptions& options, std::string& why) {
  return ask_state(why) && choose_gid(options, why);
}

bool Port::ask_state(std::string& why) {
  ibv_port_attr attributes;
  if (const int error = library_.port(context_, static_cast<uint8_t>(number_), attributes)) {
    why = fmt::format("{}: {}", address_.name, system_message("ibv_query_port", error));
    return false;
  }
  if (attributes.state != IBV_PORT_ACTIVE) {
    why = fmt::format("{}: the port is {}: check cable and switch, and set its interface up",
                      address_.name, to_string(attributes.state));
    return false;
  }
  address_.infiniband = attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
  address_.lid = attributes.lid;
  address_.mtu = 128 << attributes.active_mtu;
  return true;
}

bool Port::choose_gid(const VerbsOptions& options, std::string& why) {
  const std::vector<Gid> table = gid_table(library_, context_, number_);
  const GidWish wish{options.gid_index, options.roce_version, options.address_family,
                     options.address_range};
  std::string cause;
  const std::optional<size_t> chosen = choose(table, wish, cause);
  if (!chosen) {
    why = fmt::format("{}: {}", address_.name, cause);
    return false;
  }
  const bool same = gid_index_ == table[*chosen].index && address_.gid == table[*chosen].bytes;
  gid_index_ = table[*chosen].index;
  address_.gid = table[*chosen].bytes;
  if (same) return true;
  log(LogLevel::info, "verbs",
      fmt::format("{}: GID {} of: {}", address_.name, gid_index_, print(table)));
  return true;
}

}  // namespace ringwood::verbs
