// A group's devices: who is rung, and who is held back.
#include "transports/cuda/group_devices.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>

#include <gtest/gtest.h>

#include "collectives/messages/device_messages.h"
#include "collectives/runtime/device_calls.h"
#include "tests/cuda/device_program.h"
#include "tests/support/patience.h"

namespace ringwood::testing {
namespace {

class GroupDevicesTest : public ::testing::Test {
 protected:
  GroupDevicesTest() {
    (void)driver();
    CudaOptions options;
    options.library = CUDA_DOUBLE;
    devices = make_group_devices(options, 1, doorbell);
  }
  ~GroupDevicesTest() override { ::close(doorbell); }
  uint64_t rings() const {
    uint64_t rung = 0;
    return ::read(doorbell, &rung, sizeof rung) == sizeof rung ? rung : 0;
  }
  void await_ring() const {
    const Deadline deadline = patiently();
    uint64_t rung = 0;
    while (rung == 0 && !deadline.passed()) {
      std::this_thread::yield();
      rung = rings();
    }
    EXPECT_EQ(rung, 1u);
  }

  const int doorbell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::unique_ptr<GroupDevices> devices;
};

// Else a driver that sleeps would look at it a while later.
TEST_F(GroupDevicesTest, AMessageRingsWhenItsCopyIsDone) {
  Program program(0);
  DeviceMessages messages(*devices);
  ASSERT_TRUE(devices->ready(0, 0));
  for (const bool sending : {true, false}) {
    const auto message = std::make_shared<MessageState>(nullptr, "message", Duration::zero());
    message->sending = sending;
    message->bytes = 100;
    message->data = program.written(numbers(DataType::uint8, message->bytes, 1));
    message->on = {0, program.stream.get()};
    auto staging = devices->staging(message->bytes);
    ASSERT_TRUE(staging);
    message->staging = *staging;
    auto entered = devices->enter(0, program.stream.get());
    ASSERT_TRUE(entered);
    message->entered = *entered;
    ASSERT_TRUE(devices->hold_back(0, program.stream.get(), *entered));
    await_ring();  // the stream has come
    if (sending)
      messages.add(message);
    else
      messages.received(message);
    const auto step = [&] {
      bool progressed = false;
      std::vector<DeviceMessages::Granted> sends;
      std::vector<DeviceMessages::Message> receives;
      EXPECT_TRUE(messages.step(progressed, sends, receives));
      return progressed;
    };
    pause(true);
    EXPECT_TRUE(step());
    EXPECT_FALSE(step());
    EXPECT_EQ(rings(), 0u);
    pause(false);
    await_ring();
    EXPECT_TRUE(step());
    EXPECT_TRUE(messages.empty());
    messages.end(*message);
  }
  program.stream.synchronize();
}

// A group that is launched while another is, in the same thread, belongs to that.
TEST_F(GroupDevicesTest, AGroupWithinAGroupEntersWithIt) {
  Program program(0);
  ringwood::DeviceCalls calls(std::move(devices));
  const auto message = std::make_shared<MessageState>(nullptr, "message", Duration::zero());
  message->sending = true;
  message->bytes = 100;
  message->on = {0, program.stream.get()};
  ASSERT_TRUE(calls.begin_together());
  EXPECT_FALSE(calls.begin_together());
  auto entered = calls.enter(*message);
  ASSERT_TRUE(entered);
  ASSERT_TRUE(calls.hold_back(message->on, *entered));
  program.stream.synchronize();  // not held back before the outer one ends
  ASSERT_TRUE(calls.end_together());
  EXPECT_FALSE(program.stream.idle());
  calls.leave(*message);
  program.stream.synchronize();
}

}  // namespace
}  // namespace ringwood::testing
