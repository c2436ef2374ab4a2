// What queue pairs and links over them do when a device does what none can be made to do: time out
// once, or fail without a last word.
//
// Paths over a device of functions alone; links over a real one (tests/roce-lab has one) whose
// completions and events are withheld and made up.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fstream>

#include "tests/support/link_ranks.h"
#include "tests/support/patience.h"
#include "tests/support/transports.h"
#include "transports/verbs/library/library.h"
#include "transports/verbs/path/path.h"
#include "transports/verbs/setup.h"

namespace ringwood::verbs {
namespace {

// ---- paths -------------------------------------------------------------------------------------

// What the device of functions is asked and answers. The functions have no other place for it.
struct Script {
  std::deque<int> ready_to_receive;  // answers to modify_qp; then 0
  std::deque<ibv_event_type> events;
  int destroy = 0;  // the answer
  int asked = 0, destroyed = 0;
};
Script script;
ibv_qp pair;

int reply_event(ibv_context*, ibv_async_event* event) {
  if (script.events.empty()) return -1;
  event->event_type = script.events.front();
  script.events.pop_front();
  return 0;
}

Library functions() {
  Library library{};
  library.create_qp = [](ibv_pd*, ibv_qp_init_attr*) { return &pair; };
  library.modify_qp = [](ibv_qp*, ibv_qp_attr* attributes, int) {
    if (attributes->qp_state != IBV_QPS_RTR) return 0;
    ++script.asked;
    if (script.ready_to_receive.empty()) return 0;
    const int answer = script.ready_to_receive.front();
    script.ready_to_receive.pop_front();
    return answer;
  };
  library.destroy_qp = [](ibv_qp*) {
    script.destroyed += script.destroy == 0 ? 1 : 0;
    return script.destroy;
  };
  library.close_device = [](ibv_context* context) {
    ::close(context->async_fd);
    ::close(context->cmd_fd);
    return 0;
  };
  library.get_async_event = reply_event;
  library.ack_async_event = [](ibv_async_event*) {};
  library.event_type_str = [](ibv_event_type) { return "made up"; };
  library.get_cq_event = [](ibv_comp_channel*, ibv_cq**, void**) { return -1; };
  return library;
}

class VerbsPaths : public ::testing::Test {
 protected:
  VerbsPaths() {
    script = {};
    context_.async_fd = ::eventfd(0, EFD_CLOEXEC);
    context_.cmd_fd = ::eventfd(0, EFD_CLOEXEC);
    context_.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
    pair = {};
    pair.context = &context_;
    pair.qp_num = 7;
    rail_ = std::make_shared<Rail>(library_, &context_, 1);
    path_ = std::make_unique<Path>(rail_);
    EXPECT_TRUE(path_->make(nullptr, {}, why_)) << why_;
  }
  bool connect(Duration patience) {
    return path_->connect({}, {}, {}, Deadline::after(patience), why_);
  }
  // It is overdue between these times after its close.
  void close(Duration not_before, Duration at_last) {
    const auto before = Clock::now();
    path_->close();
    const auto after = Clock::now();
    EXPECT_FALSE(path_->drain()) << "nothing has come back";
    EXPECT_FALSE(path_->overdue(before + not_before));
    EXPECT_TRUE(path_->overdue(after + at_last));
  }

  const Library library_ = functions();
  ibv_context context_{};
  std::string why_;
  std::shared_ptr<Rail> rail_;
  std::unique_ptr<Path> path_;
};

TEST_F(VerbsPaths, AskAgainForAnAddressThatTheNetworkDoesNotTellAtOnce) {
  script.ready_to_receive = {ETIMEDOUT, ETIMEDOUT};
  EXPECT_TRUE(connect(std::chrono::seconds(60))) << why_;
  EXPECT_EQ(script.asked, 3);
  EXPECT_TRUE(path_->connected());
}

TEST_F(VerbsPaths, DoNotAskAgainWhenNobodyMayWait) {
  script.ready_to_receive = {ETIMEDOUT};
  EXPECT_FALSE(connect(Duration::zero()));
  EXPECT_EQ(script.asked, 1);
  EXPECT_FALSE(why_.empty());
}

TEST_F(VerbsPaths, DoNotAskAgainWhatWasRefused) {
  script.ready_to_receive = {EINVAL};
  EXPECT_FALSE(connect(std::chrono::seconds(60)));
  EXPECT_EQ(script.asked, 1);
}

TEST_F(VerbsPaths, OfADeadDeviceEndWithoutAWordOfIt) {
  for (int refusal : {0, EIO}) {
    script = {};
    script.destroy = refusal;
    path_ = std::make_unique<Path>(rail_);
    ASSERT_TRUE(path_->make(nullptr, {}, why_)) << why_;
    ASSERT_TRUE(connect(Duration::zero())) << why_;
    script.events = {IBV_EVENT_DEVICE_FATAL};
    rail_->arm();
    ASSERT_TRUE(rail_->events().dead());
    ASSERT_TRUE(path_->interrupted());
    close(Duration::zero(), std::chrono::seconds(1));
    EXPECT_TRUE(path_->destroy());
    EXPECT_EQ(path_->state(), Path::State::closed);
    path_->stop();  // by an abort
  }
}

TEST_F(VerbsPaths, ThatALivingDeviceKeepsAreNotOver) {
  script.destroy = EBUSY;
  ASSERT_TRUE(connect(Duration::zero())) << why_;
  close(std::chrono::milliseconds(2500), std::chrono::seconds(4));
  EXPECT_FALSE(path_->destroy());
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(path_->state(), Path::State::closing);
  script.destroy = 0;
  EXPECT_TRUE(path_->destroy());
  EXPECT_EQ(path_->state(), Path::State::closed);
  EXPECT_EQ(script.destroyed, 1);
}

// ---- links -------------------------------------------------------------------------------------

const Library* real = nullptr;
ibv_context* failing = nullptr;       // the device of rank 0
std::optional<ibv_event_type> event;  // that it is to have

// What happens to the device of rank 0.
struct Failure {
  const char* name;
  std::optional<ibv_event_type> event;
  int (*poll)(ibv_cq*, int, ibv_wc*);  // what its completion queues say from then on
};
void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.name; }

int say_nothing(ibv_cq*, int, ibv_wc*) { return 0; }
int fail(ibv_cq*, int, ibv_wc*) { return -1; }

const Failure kFailures[] = {
    {"fatal_without_completions", IBV_EVENT_DEVICE_FATAL, say_nothing},
    {"port_error_without_completions", IBV_EVENT_PORT_ERR, say_nothing},
    {"fatal_and_unreadable", IBV_EVENT_DEVICE_FATAL, fail},
    {"unreadable", std::nullopt, fail},
};

int give_event(ibv_context* context, ibv_async_event* given) {
  if (context != failing || !event) return real->get_async_event(context, given);
  given->event_type = *event;
  given->element.port_num = 1;
  event = std::nullopt;
  return 0;
}

// One of two ranks of this thread, over one device, each with a context of its own.
struct End {
  Options options;
  WaitSet wait_set;
  Group group;
  std::shared_ptr<Rail> rail;
  Rings rings;
  std::shared_ptr<std::atomic<unsigned>> look = std::make_shared<std::atomic<unsigned>>(1);
  std::unique_ptr<LinkSetup> setup;
  std::unique_ptr<Link> link;
};

std::vector<std::unique_ptr<End>> connected_ends() {
  std::string why;
  real = load(why);
  static Library library = *real;
  library.get_async_event = give_event;
  int count = 0;
  ibv_device** devices = library.get_device_list(&count);
  std::vector<std::unique_ptr<End>> ends;
  int sockets[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  for (int rank : {0, 1}) {
    End& end = *ends.emplace_back(std::make_unique<End>());
    end.options.verbs.retries = 6;
    end.rail = std::make_shared<Rail>(library, library.open_device(devices[0]), 1);
    EXPECT_TRUE(end.rail->open(end.options.verbs, why)) << why;
    end.rings = {nullptr, size_t{1} << 20, 1, {}};
    end.rings.memory = {static_cast<std::byte*>(std::aligned_alloc(4096, end.rings.bytes())),
                        [](std::byte* memory) { std::free(memory); }};
    EXPECT_TRUE(end.rail->memory().register_rings(end.rings.memory, end.rings.bytes(), why)) << why;
    end.group.identity.rank = rank;
    end.group.identity.size = 2;
    end.group.options = &end.options;
  }
  library.free_device_list(devices);
  for (int rank : {0, 1}) {
    End& end = *ends[rank];
    end.setup = std::make_unique<LinkSetup>(
        end.group, 1 - rank, OwnedFd(sockets[rank]),
        std::vector<RailPair>{{end.rail, ends[1 - rank]->rail->address(), 0}}, end.rings, 0);
  }
  const Deadline limit = testing::patiently();
  ends[0]->setup->greet();
  for (int rank : {1, 0}) ends[rank]->setup->connect(limit, limit);
  for (auto& end : ends) end->setup->begin_probe();
  for (bool over = false; !over && !limit.passed();) {
    over = ends[0]->setup->probe_ended();
    over = ends[1]->setup->probe_ended() && over;
  }
  for (auto& end : ends) {
    end->setup->end_probe();
    EXPECT_EQ(end->setup->failure(), "");
    end->link = end->setup->finish(end->wait_set, end->look);
  }
  return ends;
}

// Both send and receive a message, and are what a sleeper's rank would be.
void talk(
    std::vector<std::unique_ptr<End>>& ends, uint64_t number,
    const std::function<void()>& meanwhile = [] {}) {
  constexpr size_t kBytes = (size_t{3} << 20) + 5;
  std::vector<std::byte> in[2], out[2];
  for (int rank : {0, 1}) {
    out[rank] = Pattern(rank, 1 - rank, 0, number).make(kBytes);
    in[rank].resize(kBytes);
    ASSERT_TRUE(ends[rank]->link->post_send(out[rank].data(), kBytes));
    ASSERT_TRUE(ends[rank]->link->post_recv(in[rank].data(), kBytes));
  }
  Completions done[2];
  const Deadline limit = testing::patiently();
  const auto open = [&](int rank) { return done[rank].sent + done[rank].received < 2 * number; };
  while ((open(0) || open(1)) && !limit.passed()) {
    for (int rank : {0, 1}) {
      ends[rank]->rail->arm();
      ++*ends[rank]->look;
      const Status s = ends[rank]->link->poll(done[rank]);
      ASSERT_TRUE(s) << "rank " << rank << ": " << s.error().message();
    }
    meanwhile();
  }
  for (int rank : {0, 1}) {
    EXPECT_FALSE(open(rank));
    EXPECT_EQ(in[rank], out[1 - rank]);
  }
}

class VerbsFailures : public ::testing::TestWithParam<Failure> {};
INSTANTIATE_TEST_SUITE_P(All, VerbsFailures, ::testing::ValuesIn(kFailures),
                         [](const auto& info) { return info.param.name; });

TEST_P(VerbsFailures, LeaveTheLinkItsOtherWays) {
  if (const std::string why = testing::absent_here("verbs"); !why.empty()) GTEST_SKIP() << why;
  auto ends = connected_ends();
  talk(ends, 1);
  ASSERT_FALSE(HasFailure());
  const auto traffic = ends[0]->link->traffic();
  ASSERT_TRUE(traffic);
  EXPECT_EQ(traffic->messages, 1u);
  EXPECT_GT(traffic->bytes, 0u);
  EXPECT_LE(traffic->bytes, 3u << 20) << "a copied message that was not yet looked at counts less";
  EXPECT_GT(traffic->busy, 0);
  EXPECT_EQ(traffic->carrying, 1);
  failing = ends[0]->rail->port().context();
  auto* const poll = failing->ops.poll_cq;
  failing->ops.poll_cq = GetParam().poll;
  event = GetParam().event;
  double carrying = 1;
  // What comes after all comes too late.
  talk(ends, 2, [&] {
    carrying = std::min(carrying, ends[0]->link->traffic()->carrying);
    if (ends[0]->link->fallback()) failing->ops.poll_cq = poll;
  });
  EXPECT_STREQ(ends[0]->link->fallback(), "tcp");
  EXPECT_EQ(carrying, 0) << "until the path is reopened";
  failing->ops.poll_cq = poll;
}

}  // namespace
}  // namespace ringwood::verbs
