// The kernel has no memory for one more watch (epoll_ctl: ENOMEM, ENOSPC): that connection is lost,
// and those that come later are served.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <atomic>
#include <cerrno>

#include "tests/control/control_members.h"
#include "tests/support/processes.h"
#include "transports/bootstrap/sockets.h"

namespace {

// Of new watches: so many succeed, then one fails. Negative: none fails.
std::atomic<int> watches_left{-1};

bool one_fails() { return watches_left.load() >= 0 && watches_left.fetch_sub(1) == 0; }

}  // namespace

// Before the one of the C library, in this program.
extern "C" int epoll_ctl(int poll, int what, int fd, epoll_event* event) noexcept {
  static const auto next =
      reinterpret_cast<int (*)(int, int, int, epoll_event*)>(dlsym(RTLD_NEXT, "epoll_ctl"));
  if (what != EPOLL_CTL_ADD || !one_fails()) return next(poll, what, fd, event);
  errno = ENOMEM;
  return -1;
}

namespace ringwood {
namespace {

using namespace ringwood::testing;

void await_failure() {
  for (const Deadline limit = patiently(); watches_left.load() >= 0;) {
    ASSERT_FALSE(limit.passed());
    poll(nullptr, 0, 1);
  }
}

TEST(FailedWatches, AListenerLetsInWhoComesLater) {
  Identity me{.key = random_key(), .session = random_session(), .rank = 0, .size = 2};
  const auto listener = listen(me, "127.0.0.1", Options{});
  const NetAddress at = listener->address();
  watches_left = 0;
  const Connected lost = connect_once(resolve(at.host, at.port), patiently());
  await_failure();
  me.rank = 1;
  Result<int> dialled = dial(at, me, {Purpose::control, 0, 1, 0}, patiently());
  ASSERT_TRUE(dialled.ok()) << dialled.error().message();
  Result<int> taken = listener->take({Purpose::control, 0, 1, 0}, patiently());
  ASSERT_TRUE(taken.ok()) << taken.error().message();
  for (int fd : {lost.fd, *dialled, *taken}) close_connection(fd);
}

// The second watch of a connection is that of its requests.
TEST(FailedWatches, AStoreServesWhoComesLater) {
  for (int good : {0, 1}) {
    const auto store = tcp_store("127.0.0.1", 0, true, patiently());
    store->set("first", "");  // its own connection is watched
    watches_left = good;
    try {
      tcp_store("127.0.0.1", tcp_store_port(*store), false, within(1))->set("lost", "");
    } catch (const Error&) {
      // It may come again within its time, too.
    }
    await_failure();
    const auto later = tcp_store("127.0.0.1", tcp_store_port(*store), false, patiently());
    later->set("key", "value");
    EXPECT_EQ(store->get("key", patiently()), "value");
  }
}

TEST(FailedWatches, ARankTellsItsStatusToWhoAsksLater) {
  auto members = sit_down(2, unhurried());
  const auto ask = [] {
    auto fd = connect_status(names_of().at(0), patiently());
    return fd.ok() && ask_status(fd->get(), {.own = true}, patiently()).ok();
  };
  watches_left = 0;
  EXPECT_FALSE(ask());
  await_failure();
  EXPECT_TRUE(ask());
}

}  // namespace
}  // namespace ringwood
