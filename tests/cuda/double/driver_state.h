// What all parts of the double share: the environment, whether the driver may be used, the current
// context of each thread, planned failures, and the count of what is held.
//
// Never destroyed: the threads of streams run until the process ends. Thread safety: all functions.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/double/cuda_header.h"

namespace fake_cuda {

inline constexpr size_t kDeviceBytes = size_t{16} << 30;

struct Settings {
  int devices = 2, driver = 13000, delay = 0;
  size_t pinned = size_t{1} << 40;
  bool leaks = false;
  std::string visible, fail;
  bool visible_is_set = false;
  std::set<std::string> missing;
};
const Settings& settings();

enum class Needs { nothing, driver, context };
// Blocks while fake_cuda_pause() is on, and as long as FAKE_CUDA_DELAY says.
void before_a_task();
// The beginning of every call: why it is refused, or CUDA_SUCCESS. `call` is __func__.
CUresult enter(const char* call, Needs needs = Needs::driver);
// "cuMemAlloc" of "cuMemAlloc_v2".
std::string plain_name(const std::string& call);

// The code with which this call is to fail; 0: it is not.
unsigned planned_failure(const std::string& plain_call);
void plan_failures(const std::string& plan);

enum class Held { context, stream, event, allocation, host_allocation, registration, count };
void hold(Held what, int change);
std::string left();

// The devices of this process, by their numbers in the machine; found by cuInit.
const std::vector<int>& visible_devices();
bool is_device(CUdevice device);
CUuuid uuid_of(int physical);
std::string uuid_text(int physical);

// What handles stand for, so that a handle that is gone is told from one that is not.
template <class T>
class Objects {
 public:
  T* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    T* const handle = object.get();
    all_.emplace(std::move(object));
    return handle;
  }
  // Null: there is none.
  std::shared_ptr<T> find(T* handle) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(handle);
    return found == all_.end() ? nullptr : *found;
  }
  std::shared_ptr<T> remove(T* handle) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(handle);
    return found == all_.end() ? nullptr : std::move(all_.extract(found).value());
  }

 private:
  struct ByAddress {
    using is_transparent = void;
    bool operator()(const std::shared_ptr<T>& a, const std::shared_ptr<T>& b) const {
      return a < b;
    }
    bool operator()(const std::shared_ptr<T>& a, T* b) const { return a.get() < b; }
    bool operator()(T* a, const std::shared_ptr<T>& b) const { return a < b.get(); }
  };
  std::mutex mutex_;
  std::set<std::shared_ptr<T>, ByAddress> all_;
};

// An object that is made once and never destroyed.
template <class T>
T& forever() {
  static T* const object = new T;
  return *object;
}

}  // namespace fake_cuda
