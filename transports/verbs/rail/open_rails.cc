#include "transports/verbs/rail/open_rails.h"

#include <fmt/format.h>
#include <unistd.h>

#include "transports/base/error.h"

namespace ringwood::verbs {
namespace {

void open_ports(const Library& library, ibv_device* device, const VerbsOptions& options,
                std::vector<std::shared_ptr<Rail>>& rails, std::string& why) {
  const auto note = [&](const std::string& cause) { why += (why.empty() ? "" : "; ") + cause; };
  const std::string name = library.get_device_name(device);
  for (int port = 1, ports = 1; port <= ports; ++port) {
    if (!selected(options.devices, name, port)) continue;
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

std::vector<std::shared_ptr<Rail>> open_rails(const VerbsOptions& options, std::string& why,
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
    why = fmt::format("RINGWOOD_VERBS_DEVICES={} selects none of the {} devices", options.devices,
                      count);
  }
  return rails;
}

}  // namespace ringwood::verbs
