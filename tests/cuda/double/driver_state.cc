#include "tests/cuda/double/driver_state.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "tests/cuda/double/contexts.h"
#include "tests/cuda/double/control.h"

namespace fake_cuda {
namespace {

constexpr int kHeld = static_cast<int>(Held::count);
constexpr const char* kNames[kHeld] = {"contexts",    "streams",          "events",
                                       "allocations", "host allocations", "registrations"};

std::array<std::atomic<int>, kHeld> g_held;
std::atomic<bool> g_initialised{false};
std::atomic<bool> g_forked{false};
std::atomic<bool> g_paused{false};
std::atomic<unsigned long long> g_calls{0};

std::string text_of(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

int number_of(const char* name, int otherwise) {
  const std::string text = text_of(name);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

Settings read_environment() {
  Settings read;
  read.devices = number_of("FAKE_CUDA_DEVICES", read.devices);
  read.driver = number_of("FAKE_CUDA_DRIVER", read.driver);
  read.delay = number_of("FAKE_CUDA_DELAY", 0);
  if (const std::string pinned = text_of("FAKE_CUDA_PINNED"); !pinned.empty())
    read.pinned = std::strtoull(pinned.c_str(), nullptr, 10);
  read.leaks = number_of("FAKE_CUDA_LEAKS", 0) != 0;
  read.visible_is_set = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  read.visible = text_of("CUDA_VISIBLE_DEVICES");
  read.fail = text_of("FAKE_CUDA_FAIL");
  std::istringstream missing(text_of("FAKE_CUDA_MISSING"));
  for (std::string name; std::getline(missing, name, ',');) read.missing.insert(name);
  return read;
}

// As late as possible: whatever the program releases at its own end is released by then.
void at_exit(int status, void*) {
  if (!settings().leaks || g_forked) return;
  const std::string what = left();
  if (what.empty()) return;
  std::fprintf(stderr, "fake CUDA: not released: %s\n", what.c_str());
  std::fflush(nullptr);
  if (status == 0) ::_exit(97);
}

__attribute__((constructor)) void when_loaded() {
  ::on_exit(at_exit, nullptr);
  // As with the real driver: what was initialised before a fork is of no use in the child.
  ::pthread_atfork(nullptr, nullptr, [] {
    if (g_initialised) g_forked = true;
  });
}

// As NVIDIA's driver: the list ends at the first entry that names no device, or one for the second
// time.
std::vector<int> find_visible() {
  const Settings& set = settings();
  std::vector<int> all;
  if (!set.visible_is_set) {
    for (int i = 0; i < set.devices; ++i) all.push_back(i);
    return all;
  }
  std::istringstream list(set.visible);
  for (std::string entry; std::getline(list, entry, ',');) {
    std::vector<int> meant;
    for (int i = 0; i < set.devices; ++i)
      if (entry == std::to_string(i) || (entry.size() > 4 && uuid_text(i).starts_with(entry)))
        meant.push_back(i);
    if (meant.size() != 1 || std::find(all.begin(), all.end(), meant[0]) != all.end()) break;
    all.push_back(meant[0]);
  }
  return all;
}

}  // namespace

const Settings& settings() {
  static const Settings* const read = new Settings(read_environment());
  return *read;
}

std::string plain_name(const std::string& call) {
  const size_t at = call.rfind("_v");
  return at == call.npos || at + 3 != call.size() ? call : call.substr(0, at);
}

void before_a_task() {
  while (g_paused) std::this_thread::sleep_for(std::chrono::microseconds(50));
  static std::atomic<uint64_t> tasks{0};
  if (settings().delay == 0) return;
  // A mixed count, of which seed and thread decide the order.
  uint64_t x = (++tasks + static_cast<uint64_t>(settings().delay)) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  if (x % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(x / 4 % 2000));
}

CUresult enter(const char* call, Needs needs) {
  ++g_calls;
  if (g_forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs != Needs::nothing && !g_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (const unsigned code = planned_failure(plain_name(call))) return static_cast<CUresult>(code);
  return needs == Needs::context ? current_context_state() : CUDA_SUCCESS;
}

void hold(Held what, int change) { g_held[static_cast<int>(what)] += change; }

std::string left() {
  std::string text;
  for (int i = 0; i < kHeld; ++i) {
    const int count = g_held[i];
    if (count == 0) continue;
    std::string name = kNames[i];
    if (count == 1) name.pop_back();
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text;
}

const std::vector<int>& visible_devices() {
  static const auto* const found = new std::vector<int>(find_visible());
  return *found;
}

bool is_device(CUdevice device) {
  return device >= 0 && device < static_cast<int>(visible_devices().size());
}

CUuuid uuid_of(int physical) {
  CUuuid uuid{};
  constexpr unsigned char kBegin[] = {0xfa, 0x5e, 0xce, 0x00};
  std::memcpy(uuid.bytes, kBegin, sizeof kBegin);
  uuid.bytes[15] = static_cast<char>(physical);
  return uuid;
}

std::string uuid_text(int physical) {
  char text[64];
  std::snprintf(text, sizeof text, "GPU-fa5ece00-0000-0000-0000-0000000000%02x", physical);
  return text;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUresult cuInit(unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::nothing)) return refused;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (visible_devices().empty()) return CUDA_ERROR_NO_DEVICE;
  g_initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (const CUresult refused = enter(__func__, Needs::nothing)) return refused;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = settings().driver;
  return CUDA_SUCCESS;
}

void fake_cuda_fail(const char* plan) { plan_failures(plan); }

void fake_cuda_pause(int on) { g_paused = on != 0; }

unsigned long long fake_cuda_calls() { return g_calls; }

void fake_cuda_left(char* text, size_t room) { std::snprintf(text, room, "%s", left().c_str()); }
}
