// What a link says of its paths while it carries: by completions and events that the test gives.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/verbs/library/library.h"
#include "transports/verbs/path/path_set.h"
#include "transports/verbs/path/write_traffic.h"

namespace ringwood::verbs {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// ---- what counts --------------------------------------------------------------------------------

class Looks {
 public:
  // After `gap`: so much has landed since the last look, so much is on its way.
  void look(Duration gap, uint64_t landed, uint64_t open, bool armed = false) {
    now_ += gap;
    landed_ += landed;
    if (traffic.due(open)) traffic.look(open, landed_, armed, now_);
  }
  WriteTraffic traffic;

 private:
  Clock::time_point now_ = Clock::now();
  uint64_t landed_ = 0;
};

TEST(VerbsTraffic, IsWhatLandsWhileTheUserLooks) {
  Looks looks;
  looks.look(seconds(5), 0, 0);
  looks.look(seconds(5), 0, 3000);
  looks.look(microseconds(100), 1000, 2000);
  looks.look(microseconds(200), 2000, 0);
  looks.look(seconds(5), 0, 0);
  const LinkTraffic found = looks.traffic.traffic();
  EXPECT_EQ(found.bytes, 3000u);
  EXPECT_NEAR(found.busy, 300e-6, 1e-9);
  EXPECT_EQ(found.blocked, 0);
}

TEST(VerbsTraffic, IsNotWhatLandedWhileNobodyLooked) {
  Looks looks;
  looks.look(seconds(1), 0, 3000);
  looks.look(milliseconds(50), 3000, 5000);  // the user's own work
  EXPECT_EQ(looks.traffic.traffic().bytes, 0u);
  EXPECT_EQ(looks.traffic.traffic().busy, 0);
  looks.look(microseconds(500), 5000, 0);
  EXPECT_EQ(looks.traffic.traffic().bytes, 5000u);
  EXPECT_NEAR(looks.traffic.traffic().busy, 500e-6, 1e-9);
}

TEST(VerbsTraffic, IsWhatLandsInASleep) {
  Looks looks;
  looks.look(seconds(1), 0, 3000, true);
  looks.look(milliseconds(50), 3000, 1000, true);
  EXPECT_EQ(looks.traffic.traffic().bytes, 3000u);
  EXPECT_NEAR(looks.traffic.traffic().busy, 50e-3, 1e-9);
  looks.look(seconds(5), 1000, 0);  // not a sleep: a completion would have ended it
  EXPECT_EQ(looks.traffic.traffic().bytes, 3000u);
}

// ---- paths over two devices of functions --------------------------------------------------------

struct Device {
  ibv_context context{};
  ibv_cq queue{};
  ibv_qp pair{};
  std::deque<ibv_wc> completions;
  std::deque<ibv_event_type> events;
};
std::array<Device, 2>* devices = nullptr;

Device& device_of(const ibv_context* context) {
  return (*devices)[context == &(*devices)[0].context ? 0 : 1];
}

int give_completions(ibv_cq* queue, int most, ibv_wc* given) {
  auto& from = device_of(queue->context).completions;
  int n = 0;
  for (; n < most && !from.empty(); from.pop_front()) given[n++] = from.front();
  return n;
}

int give_events(ibv_context* context, ibv_async_event* event) {
  auto& from = device_of(context).events;
  if (from.empty()) return -1;
  event->event_type = from.front();
  event->element.port_num = 1;
  from.pop_front();
  return 0;
}

Library functions() {
  Library library{};
  library.create_cq = [](ibv_context* context, int, void*, ibv_comp_channel*, int) {
    return &device_of(context).queue;
  };
  library.destroy_cq = [](ibv_cq*) { return 0; };
  library.get_cq_event = [](ibv_comp_channel*, ibv_cq**, void**) { return -1; };
  library.create_qp = [](ibv_pd*, ibv_qp_init_attr* wanted) {
    return &device_of(wanted->send_cq->context).pair;
  };
  library.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return 0; };
  library.destroy_qp = [](ibv_qp*) { return 0; };
  library.close_device = [](ibv_context* context) {
    ::close(context->async_fd);
    return 0;
  };
  library.get_async_event = give_events;
  library.ack_async_event = [](ibv_async_event*) {};
  library.event_type_str = [](ibv_event_type) { return "made up"; };
  library.wc_status_str = [](ibv_wc_status) { return "made up"; };
  return library;
}

struct NoEvents final : PathEvents {
  void arrived(uint32_t, uint32_t) override {}
  bool proving(PathSlot&, bool, uint64_t) override { return false; }
  void not_proven(PathSlot&, const std::string&) override {}
  void lost(PathSlot&) override {}
  void ended(PathSlot&) override {}
};

class VerbsCarrying : public ::testing::Test {
 protected:
  VerbsCarrying() {
    devices = &devices_;
    group_.identity.size = 2;
    group_.options = &options_;
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    peer_socket_ = OwnedFd(sockets[1]);
    link_ = std::make_unique<LinkState>(group_, 1, OwnedFd(sockets[0]));
    paths_ = std::make_unique<PathSet>(*link_, events_);
    std::vector<RailPair> pairs;
    for (uint32_t i : {0u, 1u}) {
      Device& device = devices_[i];
      device.context.async_fd = ::eventfd(0, EFD_CLOEXEC);
      device.context.ops.poll_cq = give_completions;
      device.context.ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
      device.context.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
      device.context.ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; };
      device.queue.context = device.pair.context = &device.context;
      device.pair.qp_num = 7 + i;
      rails_.push_back(std::make_shared<Rail>(library_, &device.context, 1));
      pairs.push_back({rails_.back(), {}, 0});
    }
    std::string why;
    EXPECT_TRUE(paths_->make(std::move(pairs), why)) << why;
    for (PathSlot& slot : paths_->slots()) {
      EXPECT_TRUE(slot.path->connect({}, {}, {}, Deadline::after(Duration::zero()), why)) << why;
      slot.path->use();
    }
  }
  ~VerbsCarrying() override { devices = nullptr; }

  uint64_t write(size_t path, uint32_t bytes) {
    const uint64_t number = paths_->slots()[path].path->write({.bytes = bytes});
    EXPECT_GT(number, 0u);
    return number;
  }
  void complete(size_t path, uint64_t number, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc completion{};
    completion.wr_id = number;
    completion.status = status;
    completion.qp_num = devices_[path].pair.qp_num;
    devices_[path].completions.push_back(completion);
    paths_->read();
  }

  // Destroyed in reverse order.
  std::array<Device, 2> devices_;
  const Library library_ = functions();
  Options options_;
  Group group_;
  OwnedFd peer_socket_;
  NoEvents events_;
  std::unique_ptr<LinkState> link_;
  std::vector<std::shared_ptr<Rail>> rails_;
  std::unique_ptr<PathSet> paths_;
};

TEST_F(VerbsCarrying, LargeWritesAreOnTheirWayUntilTheirCompletions) {
  write(0, 64 << 10);
  const uint64_t second = write(0, 64 << 10), other = write(1, 32 << 10);
  write(1, 16);  // is not signalled
  EXPECT_EQ(paths_->carried().open, 160u << 10);
  EXPECT_EQ(paths_->carried().landed, 0u);
  complete(0, second);  // and with it the first
  EXPECT_EQ(paths_->carried().open, 32u << 10);
  EXPECT_EQ(paths_->carried().landed, 128u << 10);
  complete(1, other);
  EXPECT_EQ(paths_->carried().open, 0u);
  EXPECT_EQ(paths_->carried().landed, 160u << 10);
}

TEST_F(VerbsCarrying, APortThatIsDownCarriesNothing) {
  write(1, 64 << 10);
  EXPECT_EQ(paths_->carried().part, 1);
  devices_[1].events = {IBV_EVENT_PORT_ERR};
  rails_[1]->arm();
  paths_->watch();
  EXPECT_EQ(paths_->carried().part, 0.5);
  EXPECT_EQ(paths_->carried().open, 0u) << "nobody waits for its completions";
  EXPECT_EQ(paths_->carried().landed, 0u);
  // The port is back, and a new queue pair in its place.
  devices_[1].events = {IBV_EVENT_PORT_ACTIVE};
  rails_[1]->arm();
  auto fresh = std::make_unique<Path>(rails_[1]);
  std::string why;
  ASSERT_TRUE(fresh->make(&devices_[1].queue, {}, why)) << why;
  ASSERT_TRUE(fresh->connect({}, {}, {}, Deadline::after(Duration::zero()), why)) << why;
  ASSERT_TRUE(paths_->replace(paths_->slots()[1], std::move(fresh)));
  EXPECT_EQ(paths_->carried().part, 0.5) << "it is being proven";
  paths_->slots()[1].path->use();
  EXPECT_EQ(paths_->carried().part, 1);
}

TEST_F(VerbsCarrying, AWriteThatFailsHasNotLanded) {
  complete(0, write(0, 64 << 10), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(paths_->carried().part, 0.5);
  EXPECT_EQ(paths_->carried().landed, 0u);
}

}  // namespace
}  // namespace ringwood::verbs
