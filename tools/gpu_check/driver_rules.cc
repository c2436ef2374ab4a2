#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "tools/gpu_check/gpu_check.h"
#include "tools/gpu_check/pinned_memory.h"
#include "transports/base/clock.h"
#include "transports/base/options.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood::gpu_check {
namespace {

using namespace cuda;

constexpr size_t kBytes = size_t{1} << 20;
constexpr int kMoreThanAStreamHolds = 20'000;
constexpr auto kLongest = std::chrono::seconds(2);

template <class Done>
bool comes_true(Done done) {
  const Deadline deadline = Deadline::after(kLongest);
  while (!done() && !deadline.passed()) std::this_thread::yield();
  return done();
}

// What comes after it in the stream waits until it is opened: by itself after two seconds, so that
// nothing hangs.
class Held final {
 public:
  Held(const Device& device, CUstream stream) {
    const CurrentContext current(device);
    device.require(device.driver().stream.host_function(stream, hold, this), "cuLaunchHostFunc");
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    open();
    while (!passed_) std::this_thread::yield();
  }
  void open() { open_ = true; }

 private:
  static void hold(void* data) {
    auto* const held = static_cast<Held*>(data);
    (void)comes_true([&] { return held->open_.load(); });
    held->passed_ = true;
  }
  std::atomic<bool> open_{false}, passed_{false};
};

// Two words of pinned memory, as both sides see them.
class Rules final {
 public:
  explicit Rules(const Device& device)
      : device_(device),
        driver_(device.driver()),
        memory_(device, kBytes + 64),
        one_(device),
        other_(device) {
    set(0, 0), set(1, 0);
  }

  std::string writes_come_after_what_was_before() {
    Held held(device_, one_.get());
    memory_.copy_out(one_.get(), kBytes);
    memory_.copy_in(one_.get(), 8);
    write(one_, 1, 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (word(1) != 0) return "a word was written before the work before it";
    held.open();
    if (!comes_true([&] { return word(1) == 5; })) return "a word was not written";
    one_.synchronize();
    return "";
  }
  std::string waits_are_ended_by_the_host() {
    wait(one_, 0, 1);
    if (one_.idle()) return "a stream did not wait";
    set(0, 1);
    return comes_true([&] { return one_.idle(); }) ? "" : "a stream did not see the host's word";
  }
  std::string waits_are_ended_by_another_stream() {
    wait(one_, 0, 1);
    write(other_, 0, 2);  // at least
    if (comes_true([&] { return one_.idle(); })) return "";
    set(0, 2);
    return "a stream did not see the other's word";
  }
  std::string words_count_round() {
    set(0, 0xfffffff0u);
    wait(one_, 0, 5);
    if (one_.idle()) return "a wait for 5 ended at 2^32 - 16";
    set(0, 5);
    return comes_true([&] { return one_.idle(); }) ? "" : "a wait for 5 did not end";
  }
  std::string copies_go_on_beside_a_stream_that_waits() {
    wait(one_, 0, 1);
    memory_.copy_out(other_.get(), kBytes);
    write(other_, 1, 1);
    const bool came = comes_true([&] { return word(1) == 1; });
    set(0, 1);
    one_.synchronize();
    return came ? "" : "copies of a stream wait for another stream that waits for a word";
  }
  // Else a call that is the first of its size would wait for a receive before it.
  std::string memory_can_be_pinned_beside_a_stream_that_waits() {
    wait(one_, 0, 1);
    std::atomic<bool> pinned{false};
    std::thread caller([&] {
      const Memory more(device_, kBytes);
      pinned = true;
    });
    const bool came = comes_true([&] { return pinned.load(); });
    set(0, 1);
    caller.join();
    return came ? "" : "memory is pinned, allocated or freed only when a stream that waits goes on";
  }
  // Else the driver of the engine would stand still with the caller.
  std::string a_full_stream_blocks_no_other_thread() {
    wait(one_, 0, 1);
    std::atomic<int> put{0};
    std::thread caller([&] {
      for (int i = 0; i < kMoreThanAStreamHolds; ++i, ++put) write(one_, 1, 0);
    });
    int before = -1;  // until it is full, or holds all
    while (put != before && put < kMoreThanAStreamHolds) {
      before = put;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::atomic<bool> copied{false};
    std::thread driver([&] {
      memory_.copy_out(other_.get(), kBytes);
      other_.synchronize();
      copied = true;
    });
    const bool came = comes_true([&] { return copied.load(); });
    set(0, 1);
    caller.join();
    driver.join();
    return came ? ""
                : fmt::format("behind a stream with {} tasks another thread cannot copy", before);
  }
  std::string functions_come_after_what_was_before() {
    std::atomic<bool> rung{false};
    {
      Held held(device_, one_.get());
      const CurrentContext current(device_);
      device_.require(
          driver_.stream.host_function(
              one_.get(), [](void* r) { *static_cast<std::atomic<bool>*>(r) = true; }, &rung),
          "cuLaunchHostFunc");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (rung) return "a function of the host came before the work before it";
    }
    return comes_true([&] { return rung.load(); }) ? "" : "a function of the host did not come";
  }
  std::string pointers_are_known_without_a_context() {
    LoadedDriver::look(Options::from_environment().cuda.library);
    std::string wrong;
    std::thread([&] {  // which has none
      if (LoadedDriver::device_of(std::bit_cast<void*>(memory_.device())) != device_.ordinal())
        wrong = "memory of the device is not known as such";
      else if (LoadedDriver::device_of(memory_.host()) >= 0 || LoadedDriver::device_of(&wrong) >= 0)
        wrong = "memory of the host is taken for a device's";
    })
        .join();
    return LoadedDriver::known() ? wrong : "the driver is not found in this process";
  }
  std::string bytes_arrive() {
    for (size_t i = 0; i < kBytes; ++i) memory_.host()[i] = static_cast<std::byte>(i * 7);
    memory_.copy_in(one_.get(), kBytes);
    one_.synchronize();
    for (size_t i = 0; i < kBytes; ++i) memory_.host()[i] = std::byte{0};
    memory_.copy_out(one_.get(), kBytes);
    one_.synchronize();
    for (size_t i = 0; i < kBytes; ++i)
      if (memory_.host()[i] != static_cast<std::byte>(i * 7))
        return fmt::format("byte {} of {} is wrong", i, kBytes);
    return "";
  }

 private:
  std::atomic_ref<uint32_t> at(int i) const {
    return std::atomic_ref<uint32_t>(reinterpret_cast<uint32_t*>(memory_.host() + kWords)[i]);
  }
  uint32_t word(int i) const { return at(i).load(std::memory_order_acquire); }
  void set(int i, uint32_t value) const { at(i).store(value, std::memory_order_release); }
  CUdeviceptr seen(int i) const {
    return memory_.host_as_seen() + kWords + 4 * static_cast<CUdeviceptr>(i);
  }
  void wait(const Stream& stream, int i, uint32_t value) const {
    const CurrentContext current(device_);
    device_.require(driver_.stream.wait_value(stream.get(), seen(i), value, kWaitAtLeast),
                    "cuStreamWaitValue32");
  }
  void write(const Stream& stream, int i, uint32_t value) const {
    const CurrentContext current(device_);
    device_.require(driver_.stream.write_value(stream.get(), seen(i), value, kWriteInOrder),
                    "cuStreamWriteValue32");
  }

  static constexpr size_t kWords = kBytes;  // behind what is copied
  const Device& device_;
  const Driver& driver_;
  const Memory memory_;
  Stream one_, other_;
};

}  // namespace

void driver_rules(const Driver& driver, Findings& findings) {
  const Device device(driver, 0);
  const auto rule = [&](const char* name, std::string (Rules::*look)()) {
    findings.check(name, [&] {
      Rules rules(device);
      return (rules.*look)();
    });
  };
  rule("bytes arrive", &Rules::bytes_arrive);
  rule("a stream's write comes after the work before it",
       &Rules::writes_come_after_what_was_before);
  rule("the host ends a stream's wait", &Rules::waits_are_ended_by_the_host);
  rule("another stream ends a stream's wait", &Rules::waits_are_ended_by_another_stream);
  rule("words count round", &Rules::words_count_round);
  rule("copies go on beside a stream that waits", &Rules::copies_go_on_beside_a_stream_that_waits);
  rule("memory can be pinned beside a stream that waits",
       &Rules::memory_can_be_pinned_beside_a_stream_that_waits);
  rule("a full stream blocks no other thread", &Rules::a_full_stream_blocks_no_other_thread);
  rule("functions of the host come after the work before them",
       &Rules::functions_come_after_what_was_before);
  rule("pointers are known without a context", &Rules::pointers_are_known_without_a_context);
}

}  // namespace ringwood::gpu_check
