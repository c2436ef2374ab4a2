#include "transports/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

std::string pci_of(const Driver& driver, int ordinal) {
  char id[32] = {};
  require(driver, driver.device.get_pci_bus_id(id, sizeof id, ordinal), "cuDeviceGetPCIBusId",
          ordinal);
  std::string text = id;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string Uuid::text() const {
  std::string text = "GPU-";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

DeviceFacts facts_of(const Driver& driver, int ordinal) {
  DeviceFacts facts;
  facts.ordinal = ordinal;
  CUuuid uuid{};
  require(driver, driver.device.get_uuid(&uuid, ordinal), "cuDeviceGetUuid", ordinal);
  std::memcpy(facts.uuid.bytes.data(), uuid.bytes, sizeof uuid.bytes);
  char name[256] = {};
  require(driver, driver.device.get_name(name, sizeof name, ordinal), "cuDeviceGetName", ordinal);
  facts.name = name;
  facts.pci = pci_of(driver, ordinal);
  require(driver, driver.device.total_memory(&facts.bytes, ordinal), "cuDeviceTotalMem", ordinal);
  const auto ask = [&](CUdevice_attribute attribute) {
    int value = 0;
    require(driver, driver.device.get_attribute(&value, attribute, ordinal), "cuDeviceGetAttribute",
            ordinal);
    return value;
  };
  facts.sm = 10 * ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
             ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.registers_host_memory = ask(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) != 0;
  return facts;
}

std::vector<DeviceFacts> devices(const Driver& driver) {
  int count = 0;
  require(driver, driver.device.get_count(&count), "cuDeviceGetCount");
  std::vector<DeviceFacts> all;
  for (int ordinal = 0; ordinal < count; ++ordinal) all.push_back(facts_of(driver, ordinal));
  return all;
}

Device::Device(const Driver& driver, int ordinal)
    : driver_(driver), facts_(facts_of(driver, ordinal)) {
  require(driver_.device.retain_primary_context(&context_, ordinal), "cuDevicePrimaryCtxRetain");
}

Device::~Device() {
  if (driver_.usable()) driver_.device.release_primary_context(ordinal());
}

void Device::require(CUresult code, const char* call) const {
  cuda::require(driver_, code, call, ordinal());
}

CurrentContext::CurrentContext(const Device& device) : device_(device) {
  device.require(device.driver().context.push(device.context()), "cuCtxPushCurrent");
  pushed_ = true;
}

CurrentContext::CurrentContext(const Device& device, std::nothrow_t) noexcept : device_(device) {
  const Driver& driver = device.driver();
  if (driver.usable()) code_ = driver.context.push(device.context());
  pushed_ = code_ == CUDA_SUCCESS;
}

Status CurrentContext::status() const {
  if (pushed_) return {};
  return failure(device_.driver(), code_, "cuCtxPushCurrent", device_.ordinal());
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (pushed_) device_.driver().context.pop(&popped);
}

BesideCaptures::BesideCaptures(const Device& device) noexcept : device_(device) {
  const Driver& driver = device.driver();
  exchanged_ = driver.usable() && driver.stream.exchange_capture_mode(&mode_) == CUDA_SUCCESS;
}

BesideCaptures::~BesideCaptures() {
  if (exchanged_) device_.driver().stream.exchange_capture_mode(&mode_);
}

}  // namespace ringwood::cuda
