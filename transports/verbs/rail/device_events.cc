#include "transports/verbs/rail/device_events.h"

#include <fmt/format.h>

#include "transports/base/log.h"

namespace ringwood::verbs {
namespace {

bool ends_a_device(ibv_event_type type) {
  return type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR;
}

}  // namespace

DeviceEvents::DeviceEvents(const Port& port) noexcept : port_(port) { make_nonblocking(fd()); }

void DeviceEvents::read() noexcept {
  ibv_async_event event;
  while (port_.library().get_async_event(port_.context(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    const bool of_port =
        type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_GID_CHANGE;
    const bool ours = !of_port || event.element.port_num == port_.number();
    port_.library().ack_async_event(&event);
    if (!ours) continue;
    log(LogLevel::info, "verbs",
        fmt::format("{}: event: {}", port_.address().name, port_.library().event_type_str(type)));
    if (type == IBV_EVENT_PORT_ACTIVE) returns_.fetch_add(1, std::memory_order_release);
    if (type != IBV_EVENT_PORT_ERR && !ends_a_device(type)) continue;
    if (ends_a_device(type)) dead_.store(true, std::memory_order_release);
    std::lock_guard lock(mutex_);
    why_down_ = fmt::format("event: {}", port_.library().event_type_str(type));
    outages_.fetch_add(1, std::memory_order_release);
  }
}

std::string DeviceEvents::why_down() const {
  std::lock_guard lock(mutex_);
  return why_down_;
}

}  // namespace ringwood::verbs
