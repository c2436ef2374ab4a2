// What there is: driver, devices, who reaches whom, and where they hang in the PCI tree. Without
// NVML: sysfs knows it.
#include <algorithm>
#include <climits>
#include <filesystem>
#include <fstream>

#include "tools/gpu_check/findings.h"
#include "transports/cuda/check.h"
#include "transports/cuda/device.h"
#include "transports/cuda/virtual_memory.h"

namespace ringwood::gpu_check {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The bridges from the root to the device, each as "0000:3b:00.0"; empty where sysfs has none.
std::vector<std::string> path_of(const fs::path& device) {
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  std::vector<std::string> path;
  for (const fs::path& part : real)
    if (std::ranges::count(part.string(), ':') >= 1) path.push_back(part.string());
  return path;
}

struct Nic {
  std::string name;
  std::vector<std::string> path;
};
std::vector<Nic> nics() {
  std::vector<Nic> all;
  for (const char* kind : {"/sys/class/infiniband", "/sys/class/net"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(kind, error)) {
      const fs::path device = entry.path() / "device";
      if (!fs::exists(device, error)) continue;
      all.push_back({entry.path().filename(), path_of(device)});
    }
  }
  return all;
}

// By the number of bridges that both paths have in common.
ordered_json nearest(const std::vector<std::string>& path, const std::vector<Nic>& all) {
  ordered_json names = ordered_json::array();
  ptrdiff_t best = 0;
  for (const Nic& nic : all) {
    const auto parts = std::ranges::mismatch(path, nic.path).in1 - path.begin();
    if (parts == 0 || parts < best) continue;
    if (parts > best) names.clear();
    best = parts;
    names.push_back(nic.name);
  }
  return names;
}

ordered_json device_json(const cuda::Driver& driver, const cuda::DeviceFacts& device,
                         const std::vector<Nic>& all) {
  const fs::path place = fs::path("/sys/bus/pci/devices") / device.pci;
  const std::vector<std::string> path = path_of(place);
  const cuda::Device used(driver, device.ordinal);
  size_t free = 0, total = 0;
  {
    const cuda::CurrentContext current(used);
    used.require(driver.context.free_memory(&free, &total), "cuMemGetInfo");
  }
  int multicast = 0, fabric = 0;
  cuda::CUdevice handle = 0;
  used.require(driver.device.get(&handle, device.ordinal), "cuDeviceGet");
  // Older drivers do not know them.
  driver.device.get_attribute(&multicast, cuda::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, handle);
  driver.device.get_attribute(&fabric, cuda::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                              handle);
  return {{"ordinal", device.ordinal},
          {"name", device.name},
          {"uuid", device.uuid.text()},
          {"sm", device.sm},
          {"multiprocessors", device.multiprocessors},
          {"bytes", device.bytes},
          {"free_bytes", free},
          {"granularity", cuda::granularity(used)},
          {"exports_descriptors", device.exports_descriptors},
          {"rdma_of_mapped", device.rdma_of_mapped},
          {"dmabuf", device.dmabuf},
          {"multicast", multicast != 0},
          {"fabric_handles", fabric != 0},
          {"pci", device.pci},
          {"pci_path", path},
          {"numa_node", text_of(place / "numa_node")},
          {"link_speed", text_of(place / "current_link_speed")},
          {"link_width", text_of(place / "current_link_width")},
          {"nearest_nics", nearest(path, all)}};
}

}  // namespace

void facts(const cuda::Driver& driver, const Settings&, Findings& findings) {
  findings.tell("cuda", cuda::version_text(driver.version));
  findings.tell("kernel_module", text_of("/sys/module/nvidia/version"));
  const std::vector<Nic> all = nics();
  std::vector<cuda::DeviceFacts> devices;
  findings.check("devices", [&] {
    devices = cuda::devices(driver);
    ordered_json list = ordered_json::array();
    for (const auto& device : devices) list.push_back(device_json(driver, device, all));
    findings.tell("devices", list);
    return std::string();
  });
  findings.check("peer access", [&] {
    ordered_json matrix = ordered_json::array();
    for (const auto& from : devices) {
      ordered_json row = ordered_json::array();
      for (const auto& to : devices) {
        int can = from.ordinal == to.ordinal;
        if (!can) {
          cuda::CUdevice one = 0, other = 0;
          cuda::require(driver, driver.device.get(&one, from.ordinal), "cuDeviceGet");
          cuda::require(driver, driver.device.get(&other, to.ordinal), "cuDeviceGet");
          cuda::require(driver, driver.device.can_access_peer(&can, one, other),
                        "cuDeviceCanAccessPeer", from.ordinal);
        }
        row.push_back(can);
      }
      matrix.push_back(row);
    }
    findings.tell("peer_access", matrix);
    return std::string();
  });
  findings.check("memory as descriptors", [&]() -> std::string {
    for (const auto& device : devices)
      if (!device.exports_descriptors)
        return "device " + std::to_string(device.ordinal) +
               " does not export memory as file descriptors: it needs Linux and a driver with "
               "virtual memory management";
    return "";
  });
}

}  // namespace ringwood::gpu_check
