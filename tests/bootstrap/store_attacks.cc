// What the store's server gives to strangers, and what they can make it keep.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "tests/bootstrap/free_port.h"
#include "tests/bootstrap/strangers.h"
#include "tests/support/errors.h"
#include "transports/base/descriptors.h"
#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/store.h"
#include "transports/bootstrap/store_messages.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using store_messages::Operation;

std::string header(uint32_t magic, uint32_t operation, uint32_t key, uint32_t value) {
  std::string out;
  ByteWriter writer(out);
  for (uint32_t number : {magic, operation, key, value}) writer.number(number);
  return out;
}

std::string get_request(const std::string& key) {
  return store_messages::encode_request(Operation::get, key, std::string(8, '\0'));
}

// The store of rank 0 in a process of its own, so that its memory and descriptors can be counted.
Processes serve(int port, const Options& options = {}, int world_size = 2) {
  return Processes(1, [=](int, const Reporter& reporter) {
    auto store = tcp_store("127.0.0.1", port, true, patiently(), options, world_size);
    store->set("session", "secret");
    reporter.say("serving");
    for (;;) {
      reporter.await_go();
      reporter.say(store->get("session", patiently()));
    }
  });
}

void expect_alive(Processes& server) {
  server.go(0);
  EXPECT_EQ(server.line(0), "secret");
}

TEST(StoreAttacks, WithAKeyFileNothingIsToldBeforeTheKeyIsProved) {
  KeyFile key, other;
  auto store = tcp_store("127.0.0.1", 0, true, patiently(), key.options(), 2);
  const int port = tcp_store_port(*store);
  store->set("session", "secret");
  {
    Stranger one(port);
    one.say(get_request("session") + get_request("session") + get_request("session"));
    EXPECT_EQ(one.hear().find("secret"), std::string::npos);
  }
  for (const Options& options : {Options{}, other.options()}) {
    Stranger one(port);
    EXPECT_FALSE(one.enter_store(options).ok());
    Error error = error_of([&] { tcp_store("127.0.0.1", port, false, patiently(), options); });
    EXPECT_PRED2(contains, error.cause, "the keys differ; is RINGWOOD_KEY_FILE the same");
  }
  auto friendly = tcp_store("127.0.0.1", port, false, patiently(), key.options(), 2);
  EXPECT_EQ(friendly->get("session", patiently()), "secret");
}

TEST(StoreAttacks, ARecordedConnectionIsWorthNothingLater) {
  KeyFile key;
  auto store = tcp_store("127.0.0.1", 0, true, patiently(), key.options(), 2);
  const int port = tcp_store_port(*store);
  store->set("session", "secret");
  const Identity me = store_identity(key.options(), false);
  std::string recorded;
  {
    Stranger one(port);
    DialSteps steps(me, store_greeting());
    Bytes said = steps.hello();
    while (!said.empty()) {
      recorded.append(said.begin(), said.end());
      one.say({said.begin(), said.end()});
      Bytes heard(steps.wanted());
      pollfd readable{one.fd(), POLLIN, 0};
      ASSERT_EQ(poll(&readable, 1, patiently().left_ms()), 1);
      ASSERT_EQ(recv(one.fd(), heard.data(), heard.size(), MSG_WAITALL),
                static_cast<ssize_t>(heard.size()));
      said = steps.take(heard);
    }
    ASSERT_TRUE(steps.result().ok());
  }
  Stranger again(port);
  again.say(recorded + get_request("session"));
  EXPECT_EQ(again.hear().find("secret"), std::string::npos);
}

TEST(StoreAttacks, WrongBytesCloseTheirConnectionOnly) {
  auto store = tcp_store("127.0.0.1", 0, true, patiently());
  const std::string cases[] = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string(4096, '\0'),
      header(store_messages::kMagic, 0, 1, 0),
      header(store_messages::kMagic, 6, 1, 0),
      header(store_messages::kMagic, 257, 1, 0),
      header(store_messages::kMagic, 1, 1025, 0),
      header(store_messages::kMagic, 1, 0xffffffff, 0),
      header(store_messages::kMagic, 1, 1, (1 << 20) + 1),
      header(store_messages::kMagic, 2, 1, 7),
      header(store_messages::kMagic, 4, 1, 9),
      header(store_messages::kMagic, 3, 1, 1),
      // A second request while the first still waits.
      store_messages::encode_request(Operation::get, "never", std::string(8, '\x7f')) + "more",
  };
  for (const std::string& bytes : cases) {
    Stranger one(tcp_store_port(*store));
    ASSERT_TRUE(one.enter_store().ok());
    one.say(bytes);
    EXPECT_EQ(one.hear(), "") << "bytes: " << bytes.substr(0, 16);
    Stranger before(tcp_store_port(*store));
    before.say(bytes + std::string(80, ' '));  // instead of a handshake
    EXPECT_EQ(before.hear(), "") << "bytes: " << bytes.substr(0, 16);
    store->set("alive", "yes");
    EXPECT_EQ(store->get("alive", patiently()), "yes");
  }
}

TEST(StoreAttacks, SurvivesRandomBytesAndTruncations) {
  auto store = tcp_store("127.0.0.1", 0, true, patiently());
  std::mt19937 random(20261121);
  for (int round = 0; round < 300; ++round) {
    std::string bytes =
        store_messages::encode_request(static_cast<Operation>(1 + random() % 5), "key",
                                       std::string(8, static_cast<char>(random())));
    for (int flips = static_cast<int>(random() % 4); flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    Stranger one(tcp_store_port(*store));
    const bool entered = round % 2 == 0 || one.enter_store().ok();
    EXPECT_TRUE(entered);
    one.say(bytes);
  }
  store->set("alive", "yes");
  EXPECT_EQ(store->get("alive", patiently()), "yes");
}

TEST(StoreAttacks, WhatIsAnnouncedTakesNoMemoryBeforeItArrives) {
  const int port = free_port();
  Processes server = serve(port);
  ASSERT_EQ(server.line(0), "serving");
  const size_t before = resident_bytes(server.pid(0));
  std::vector<Stranger> crowd;
  for (int i = 0; i < 60; ++i) {
    crowd.emplace_back(port);
    ASSERT_TRUE(crowd.back().enter_store().ok());
    crowd.back().say(header(store_messages::kMagic, uint32_t(Operation::set), 4, 1 << 20) + "key_");
  }
  for (int i = 0; i < 100; ++i) expect_alive(server);  // it has read what was sent before
  EXPECT_LT(resident_bytes(server.pid(0)), before + (size_t{16} << 20));
}

TEST(StoreAttacks, ConnectionsAreBoundedAndTheJobsOwnGetIn) {
  constexpr int kWorld = 2, kCrowd = 1300;
  static_assert(kCrowd > KeyedAcceptor::kMaxPending);
  make_room_for_descriptors(kCrowd, "a test");
  const int port = free_port();
  Processes server = serve(port, {}, kWorld);
  ASSERT_EQ(server.line(0), "serving");
  const long before = count_descriptors(server.pid(0));
  auto own = tcp_store("127.0.0.1", port, false, patiently());
  std::vector<Stranger> crowd;
  for (int i = 0; i < kCrowd; ++i) {
    crowd.emplace_back(port);
    crowd.back().say("half a hello");  // or the kernel kept it to itself
  }
  // Those who do not finish give way to who does.
  EXPECT_EQ(tcp_store("127.0.0.1", port, false, patiently())->get("session", patiently()),
            "secret");
  EXPECT_EQ(own->get("session", patiently()), "secret");
  const long most =
      static_cast<long>(store_limits(kWorld).connections + KeyedAcceptor::kMaxPending);
  EXPECT_LE(count_descriptors(server.pid(0)), before + most + 4);
}

TEST(StoreAttacks, ClientsThatFillTheStoreWaitOutsideAndTheOthersGoOn) {
  const int port = free_port();
  Processes server = serve(port, {}, 2);
  ASSERT_EQ(server.line(0), "serving");
  const long before = count_descriptors(server.pid(0));
  std::vector<Stranger> crowd;
  const size_t most = store_limits(2).connections;
  for (size_t i = 0; i < most + 20; ++i) {
    crowd.emplace_back(port);
    const bool in = crowd.back().enter_store().ok();
    EXPECT_TRUE(in || i + 4 >= most) << i;
  }
  expect_alive(server);
  EXPECT_LE(count_descriptors(server.pid(0)), before + static_cast<long>(most) + 4);
  Error full = error_of([&] { tcp_store("127.0.0.1", port, false, within(0.3)); });
  EXPECT_PRED2(contains, full.cause, "cannot reach the store");
  crowd.clear();
  EXPECT_EQ(tcp_store("127.0.0.1", port, false, patiently())->get("session", patiently()),
            "secret");
}

// ---- clients that take their time

// So many of the usual ones, and `time`.
StoreLimits hurried(std::chrono::milliseconds time) {
  StoreLimits limits = store_limits(2);
  limits.time = time;
  return limits;
}

Stranger client_of(const StoreServer& server) {
  Stranger one(server.address().port);
  EXPECT_TRUE(one.enter_store().ok());
  return one;
}

// Until the other side has taken all, or has closed.
void say_all(const Stranger& one, std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd writable{one.fd(), POLLOUT, 0};
    ASSERT_EQ(poll(&writable, 1, patiently().left_ms()), 1);
    const ssize_t sent = send(one.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

// The next `bytes`, or what comes before the end.
std::string hear_some(const Stranger& one, size_t bytes) {
  std::string heard;
  const Deadline deadline = patiently();
  for (pollfd readable{one.fd(), POLLIN, 0}; heard.size() < bytes;) {
    if (poll(&readable, 1, deadline.left_ms()) != 1) return "(silent)";
    std::string more(bytes - heard.size(), '\0');
    const ssize_t got = recv(one.fd(), more.data(), more.size(), MSG_DONTWAIT);
    if (got <= 0) break;
    heard.append(more, 0, static_cast<size_t>(got));
  }
  return heard;
}

const std::string kDone = store_messages::encode_response(store_messages::Reply::ok, "");

TEST(StoreAttacks, WhoNeverAsksIsDisconnected) {
  const auto server = serve_store("127.0.0.1", 0, {}, hurried(std::chrono::milliseconds(50)));
  EXPECT_EQ(client_of(*server).hear(), "");
}

TEST(StoreAttacks, WhoStopsInARequestIsDisconnected) {
  const auto server = serve_store("127.0.0.1", 0, {}, hurried(std::chrono::milliseconds(50)));
  const std::string request = store_messages::encode_request(Operation::set, "key", "value");
  for (size_t half : {size_t{1}, store_messages::kRequestHeader, request.size() - 1}) {
    const Stranger one = client_of(*server);
    one.say(request.substr(0, half));
    EXPECT_EQ(one.hear(), "") << half;
  }
}

TEST(StoreAttacks, WhoStopsInALaterRequestIsDisconnected) {
  const std::string request = store_messages::encode_request(Operation::set, "key", "value");
  // This process may be too slow for the first limits.
  EXPECT_TRUE(with_growing_limit(std::chrono::milliseconds(50), [&](auto limit) {
    const auto server = serve_store("127.0.0.1", 0, {}, hurried(limit));
    const Stranger one = client_of(*server);
    one.say(request + request.substr(0, request.size() - 1));
    return one.hear() == kDone;
  }));
}

// Several times as long as there is for a request, before one and while it waits.
TEST(StoreAttacks, WhoHasAskedMayWait) {
  const std::string get = store_messages::encode_request(Operation::get, "late",
                                                         "\xff\xff\xff\xff"
                                                         "\xff\xff\xff\xff");
  const std::string answer = store_messages::encode_response(store_messages::Reply::ok, "come");
  EXPECT_TRUE(with_growing_limit(std::chrono::milliseconds(50), [&](auto limit) {
    const auto server = serve_store("127.0.0.1", 0, {}, hurried(limit));
    const Stranger waiting = client_of(*server);
    waiting.say(get);
    const Stranger idle = client_of(*server);
    idle.say(store_messages::encode_request(Operation::set, "early", ""));
    for (int times = 0; times < 4; ++times) EXPECT_EQ(client_of(*server).hear(), "");
    idle.say(store_messages::encode_request(Operation::set, "late", "come"));
    return hear_some(idle, 2 * kDone.size()) == kDone + kDone &&
           hear_some(waiting, answer.size()) == answer;
  }));
}

// A client of ours, which may be opened long before it is used.
TEST(StoreAttacks, OurClientsAskAtOnce) {
  EXPECT_TRUE(with_growing_limit(std::chrono::milliseconds(50), [&](auto limit) {
    const auto server = serve_store("127.0.0.1", 0, {}, hurried(limit));
    try {
      const auto client = tcp_store("127.0.0.1", server->address().port, false, patiently());
      for (int times = 0; times < 2; ++times) EXPECT_EQ(client_of(*server).hear(), "");
      client->set("key", "value");
      return client->get("key", patiently()) == "value";
    } catch (const Error&) {
      return false;
    }
  }));
}

TEST(StoreAttacks, BytesOfUnfinishedRequestsAreBounded) {
  StoreLimits limits = store_limits(2);
  limits.unfinished_bytes = size_t{4} << 20;
  const auto server = serve_store("127.0.0.1", 0, {}, limits);
  constexpr size_t kCrowd = 8, kSaid = size_t{900} << 10;
  const size_t room = limits.unfinished_bytes / kSaid;
  std::vector<Stranger> crowd;
  std::vector<pollfd> ends;
  for (size_t i = 0; i < kCrowd; ++i) {
    crowd.push_back(client_of(*server));
    ends.push_back({crowd.back().fd(), POLLIN, 0});
    say_all(crowd.back(), header(store_messages::kMagic, uint32_t(Operation::set), 1, 1 << 20) +
                              std::string(kSaid, 'k'));
  }
  const Deadline deadline = patiently();
  const auto gone = [&] {
    return std::ranges::count_if(ends, [](auto& end) { return end.revents; });
  };
  while (gone() < static_cast<long>(kCrowd - room) && !deadline.passed())
    poll(ends.data(), ends.size(), 1);
  EXPECT_EQ(gone(), static_cast<long>(kCrowd - room));
  const auto own = tcp_store("127.0.0.1", server->address().port, false, patiently());
  const std::string large(store_messages::kMaxValue, 'x');
  own->set("large", large);
  EXPECT_EQ(own->get("large", patiently()), large);
}

TEST(StoreAttacks, KeysAndBytesAreBounded) {
  auto store = tcp_store("127.0.0.1", 0, true, patiently(), {}, 1);
  const StoreLimits limits = store_limits(1);
  const std::string large(store_messages::kMaxValue, 'x');
  size_t taken = 0;
  Error full;
  try {
    for (;; ++taken) store->set("large/" + std::to_string(taken), large);
  } catch (const Error& error) {
    full = error;
  }
  EXPECT_EQ(full.code, ErrorCode::invalid_argument);
  EXPECT_PRED2(contains, full.cause, "the store is full (");
  EXPECT_LE(taken, limits.bytes / large.size());
  EXPECT_GE(taken + 2, limits.bytes / large.size());
  store->remove("large/0");
  store->set("small", "fits again");
  EXPECT_EQ(store->get("small", patiently()), "fits again");
}

}  // namespace
}  // namespace ringwood
