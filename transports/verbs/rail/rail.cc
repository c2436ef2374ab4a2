#include "transports/verbs/rail/rail.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/error.h"
#include "transports/fork_guard.h"
#include "transports/log.h"
#include "transports/numa.h"
#include "transports/verbs/library/capabilities.h"
#include "transports/wait_set.h"

namespace ringwood::verbs {
namespace {

// The kernel takes answers of less than 64 KiB.
constexpr size_t kMostGids = 65535 / sizeof(ibv_gid_entry);

void make_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

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
  std::vector<ibv_gid_entry> entries(kMostGids);
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

bool ends_a_device(ibv_event_type type) {
  return type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR;
}

std::string memory_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return "the memlock limit is unlimited";
  return fmt::format(
      "the memlock limit is {} KiB: raise it (ulimit -l unlimited, "
      "/etc/security/limits.conf, docker --ulimit memlock=-1), or lower "
      "RINGWOOD_VERBS_RING_BYTES",
      limit.rlim_cur >> 10);
}

}  // namespace

Rail::Rail(const Library& library, ibv_context* context, int port) noexcept
    : library_(library), context_(context), port_(port) {
  make_nonblocking(context_->async_fd);
  close_on_fork(context_->cmd_fd);
  close_on_fork(context_->async_fd);
  process_ = current_pid();
}

Rail::~Rail() {
  if (forked_since(process_)) return;  // all of it is the parent's
  if (wait_set_) {
    wait_set_->remove(channel_->fd);
    wait_set_->remove(context_->async_fd);
  }
  registrations_.reset();
  if (memory_) library_.dereg_mr(memory_);
  if (channel_) {
    forget_on_fork(channel_->fd);
    library_.destroy_comp_channel(channel_);
  }
  if (domain_) library_.dealloc_pd(domain_);
  forget_on_fork(context_->cmd_fd);
  forget_on_fork(context_->async_fd);
  library_.close_device(context_);
}

bool Rail::ask_port(std::string& why) {
  ibv_port_attr attributes;
  if (const int error = library_.port(context_, static_cast<uint8_t>(port_), attributes)) {
    why = fmt::format("{}: {}", offer_.name, system_message("ibv_query_port", error));
    return false;
  }
  if (attributes.state != IBV_PORT_ACTIVE) {
    why = fmt::format("{}: the port is {}: check cable and switch, and set its interface up",
                      offer_.name, to_string(attributes.state));
    return false;
  }
  offer_.infiniband = attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
  offer_.lid = attributes.lid;
  offer_.mtu = 128 << attributes.active_mtu;
  return true;
}

bool Rail::open(const Options& options, std::string& why) {
  offer_.name = fmt::format("{}/{}", library_.get_device_name(context_->device), port_);
  offer_.node = device_numa_node(context_->device->ibdev_path);
  if (!ask_port(why) || !choose_gid(options, why)) return false;
  domain_ = library_.alloc_pd(context_);
  channel_ = domain_ ? library_.create_comp_channel(context_) : nullptr;
  if (!channel_) {
    why = fmt::format("{}: {}", offer_.name, system_message("ibv_create_comp_channel"));
    return false;
  }
  make_nonblocking(channel_->fd);
  close_on_fork(channel_->fd);
  log(LogLevel::info, "verbs",
      fmt::format("{}: {}", offer_.name, capabilities(library_, context_, domain_)));
  return true;
}

bool Rail::choose_gid(const Options& options, std::string& why) {
  const std::vector<Gid> table = gid_table(library_, context_, port_);
  const GidWish wish{options.verbs.gid_index, options.verbs.roce_version,
                     options.verbs.address_family, options.verbs.address_range};
  std::string cause;
  const std::optional<size_t> chosen = choose(table, wish, cause);
  if (!chosen) {
    why = fmt::format("{}: {}", offer_.name, cause);
    return false;
  }
  const bool same = gid_index_ == table[*chosen].index && offer_.gid == table[*chosen].bytes;
  gid_index_ = table[*chosen].index;
  offer_.gid = table[*chosen].bytes;
  if (same) return true;
  log(LogLevel::info, "verbs",
      fmt::format("{}: GID {} of: {}", offer_.name, gid_index_, print(table)));
  return true;
}

bool Rail::register_memory(std::shared_ptr<std::byte> data, size_t bytes, std::string& why) {
  constexpr int kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  memory_ = library_.reg_mr_iova2(domain_, data.get(), bytes,
                                  reinterpret_cast<uintptr_t>(data.get()), kAccess);
  registered_ = std::move(data);
  if (memory_) return true;
  const int error = errno;
  why = fmt::format("{}: {} bytes could not be registered: {}; {}", offer_.name, bytes,
                    system_message("ibv_reg_mr", error), memory_limit());
  return false;
}

void Rail::lend_from_arena(size_t most_bytes) {
  Arena* const arena = most_bytes > 0 ? Arena::of_process() : nullptr;
  if (!arena) return;
  Registrations::Registrar registrar;
  registrar.add = [this](std::byte* data, size_t bytes, Registration& made) {
    // Writable, so that places without pages get them, and not a page of zeros.
    ibv_mr* region = library_.reg_mr_iova2(domain_, data, bytes, reinterpret_cast<uintptr_t>(data),
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    made.handle = region;
    if (region) made.key = region->lkey;
    return region != nullptr;
  };
  registrar.remove = [this](void* handle) { library_.dereg_mr(static_cast<ibv_mr*>(handle)); };
  registrar.refused = [this](size_t bytes, int error) {
    static std::atomic<bool> told{false};
    if (told.exchange(true)) return;
    log(LogLevel::warn, "verbs",
        fmt::format("{}: {} bytes of shared buffers could not be registered and are copied: {}; {}",
                    offer_.name, bytes, system_message("ibv_reg_mr", error), memory_limit()));
  };
  registrations_ = std::make_unique<Registrations>(*arena, std::move(registrar),
                                                   Registrations::Bounds{.bytes = most_bytes});
}

bool Rail::revive(const Options& options, std::string& why) {
  read_device_events();
  if (dead()) why = fmt::format("{}: {}; it does not return", offer_.name, why_down());
  return !dead() && ask_port(why) && choose_gid(options, why);
}

void Rail::watch(WaitSet& wait_set) {
  wait_set.add(channel_->fd, EPOLLIN);
  wait_set.add(context_->async_fd, EPOLLIN);
  wait_set_ = &wait_set;
}

ibv_cq* Rail::make_queue(int entries) {
  ibv_cq* queue = library_.create_cq(context_, entries, nullptr, channel_, 0);
  if (!queue) return nullptr;
  std::lock_guard lock(mutex_);
  queues_.push_back(queue);
  return queue;
}

void Rail::destroy_queue(ibv_cq* queue) {
  {
    std::lock_guard lock(mutex_);
    queues_.erase(std::find(queues_.begin(), queues_.end(), queue));
    drain_completion_events();  // or the library would wait for somebody to take them
  }
  library_.destroy_cq(queue);
}

void Rail::drain_completion_events() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (library_.get_cq_event(channel_, &queue, &context) == 0) library_.ack_cq_events(queue, 1);
}

void Rail::arm() noexcept {
  read_device_events();
  std::lock_guard lock(mutex_);
  drain_completion_events();
  for (ibv_cq* queue : queues_) ibv_req_notify_cq(queue, 0);
}

void Rail::read_device_events() noexcept {
  ibv_async_event event;
  while (library_.get_async_event(context_, &event) == 0) {
    const ibv_event_type type = event.event_type;
    const bool of_port =
        type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_GID_CHANGE;
    const bool ours = !of_port || event.element.port_num == port_;
    library_.ack_async_event(&event);
    if (!ours) continue;
    log(LogLevel::info, "verbs",
        fmt::format("{}: event: {}", offer_.name, library_.event_type_str(type)));
    if (type == IBV_EVENT_PORT_ACTIVE) returns_.fetch_add(1, std::memory_order_release);
    if (type != IBV_EVENT_PORT_ERR && !ends_a_device(type)) continue;
    if (ends_a_device(type)) dead_.store(true, std::memory_order_release);
    std::lock_guard lock(mutex_);
    why_down_ = fmt::format("event: {}", library_.event_type_str(type));
    outages_.fetch_add(1, std::memory_order_release);
  }
}

std::string Rail::why_down() const {
  std::lock_guard lock(mutex_);
  return why_down_;
}

namespace {

void open_ports(const Library& library, ibv_device* device, const Options& options,
                std::vector<std::shared_ptr<Rail>>& rails, std::string& why) {
  const auto note = [&](const std::string& cause) { why += (why.empty() ? "" : "; ") + cause; };
  const std::string name = library.get_device_name(device);
  for (int port = 1, ports = 1; port <= ports; ++port) {
    if (!selected(options.verbs.devices, name, port)) continue;
    ibv_context* context = library.open_device(device);
    if (!context) {
      note(fmt::format("{}: {}; may this user open /dev/infiniband/uverbs*?", name,
                       system_message("ibv_open_device")));
      return;
    }
    ibv_device_attr attributes{};
    if (library.query_device(context, &attributes) == 0) ports = attributes.phys_port_cnt;
    auto rail = std::make_shared<Rail>(library, context, port);
    std::string cause;
    if (rail->open(options, cause)) {
      rails.push_back(std::move(rail));
    } else {
      note(cause);
    }
  }
}

}  // namespace

std::vector<std::shared_ptr<Rail>> open_rails(const Options& options, std::string& why,
                                              bool& worth_telling) {
  worth_telling = ::access("/sys/class/infiniband", F_OK) == 0;
  std::vector<std::shared_ptr<Rail>> rails;
  const Library* library = load(why);
  if (!library) return rails;
  int count = 0;
  ibv_device** devices = library->get_device_list(&count);
  worth_telling = count > 0 || worth_telling;
  for (int i = 0; devices && i < count; ++i) open_ports(*library, devices[i], options, rails, why);
  if (devices) library->free_device_list(devices);
  if (rails.empty() && count == 0) {
    worth_telling = false;
    why =
        "libibverbs sees no device (`ibv_devices`): load its kernel module, install its provider "
        "(Debian: ibverbs-providers), and give a container /dev/infiniband";
  } else if (rails.empty() && why.empty()) {
    why = fmt::format("RINGWOOD_VERBS_DEVICES={} selects none of the {} devices",
                      options.verbs.devices, count);
  }
  return rails;
}

}  // namespace ringwood::verbs
