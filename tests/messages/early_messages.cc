// Messages that come before they are wanted: how many, what their senders wait for, and what a peer
// may claim of them.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/messages/point_to_point.h"
#include "tests/support/patience.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "transports/cuda/group_devices.h"

namespace ringwood::testing {
namespace {

class EarlyMessages : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, EarlyMessages, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

using Bytes = std::vector<char>;

Bytes message(size_t bytes, size_t number) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(number * 31 + i);
  return data;
}

OperationPtr start_send(Communicator& c, const Bytes& data, int peer, uint64_t tag) {
  return c.send(data.data(), data.size(), DataType::uint8, peer, tag);
}

void receive(Communicator& c, size_t bytes, size_t number, int peer, uint64_t tag) {
  Bytes data(bytes, 'x');
  auto op = c.recv(data.data(), bytes, DataType::uint8, peer, tag);
  must(op);
  if (data != message(bytes, number))
    throw std::runtime_error(fmt::format("message {} has other bytes", number));
}

constexpr size_t kLargest = kEagerBytes;
constexpr size_t kSure = kEagerRoom / (kLargest + kEagerCharge);

TEST_P(EarlyMessages, AreKeptUpToABoundAndTheirSendersWait) {
  constexpr size_t kMessages = 400;
  run_ranks(2, GetParam(), [&](Communicator& c) {
    if (c.rank() == 1) {
      receive(c, 5, 99, 0, 99);  // behind all the others
      must(c.barrier());
      must(c.barrier());
      for (size_t k = 0; k < kMessages; ++k) receive(c, kLargest, k, k % 2 ? 0 : kAnySource, 1);
      return;
    }
    std::vector<Bytes> data;
    std::vector<OperationPtr> sends;
    for (size_t k = 0; k < kMessages; ++k) data.push_back(message(kLargest, k));
    for (const Bytes& one : data) sends.push_back(start_send(c, one, 1, 1));
    const Bytes last = message(5, 99);
    auto behind = start_send(c, last, 1, 99);
    must(behind);
    must(c.barrier());
    for (size_t k = 0; k < kSure; ++k) must(sends[k]);  // though nothing receives them
    const auto sent =
        std::count_if(sends.begin(), sends.end(), [](auto& op) { return op->done(); });
    EXPECT_LE(static_cast<size_t>(sent), 2 * kEagerRoom / kLargest);
    must(c.barrier());
    for (auto& op : sends) must(op);
  });
}

// As programs do that send first and receive then, on all ranks.
TEST_P(EarlyMessages, CrossEachOtherUpToTheBound) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    struct Item {
      size_t bytes, number;
    };
    std::vector<Item> items;
    size_t charged = 0;
    for (size_t k = 0;; ++k) {
      const size_t bytes = k % 50 == 0 ? kLargest : k % 9;
      charged += bytes + kEagerCharge;
      if (charged > kEagerRoom) break;
      items.push_back({bytes, k});
    }
    for (const Item& item : items)
      for (int p = 0; p < 3; ++p)
        if (p != c.rank()) must(start_send(c, message(item.bytes, item.number), p, item.number));
    std::mt19937 random(static_cast<unsigned>(c.rank()));
    std::shuffle(items.begin(), items.end(), random);
    for (const Item& item : items)
      for (int p = 0; p < 3; ++p)
        if (p != c.rank()) receive(c, item.bytes, item.number, p, item.number);
  });
}

TEST_P(EarlyMessages, FlowForEverInOneDirection) {
  constexpr size_t kMessages = 3000;
  run_ranks(2, GetParam(), [&](Communicator& c) {
    std::mt19937 random(3);
    for (size_t k = 0; k < kMessages; ++k) {
      const size_t bytes = random() % 4 ? random() % 200 : random() % (kLargest + 100);
      if (c.rank() == 0) {
        must(start_send(c, message(bytes, k), 1, 7));
      } else {
        receive(c, bytes, k, 0, 7);
      }
    }
  });
}

TEST_P(EarlyMessages, OfAllSizesAreFoundInAnyOrder) {
  constexpr size_t kMessages = 500;
  run_ranks(3, GetParam(), [&](Communicator& c) {
    std::mt19937 random(8);
    std::vector<size_t> sizes(kMessages), order(kMessages);
    for (size_t& bytes : sizes)
      bytes = random() % 3 ? kLargest - random() % 1000 : random() % 2 ? 0 : random() % 70000;
    std::iota(order.begin(), order.end(), 0);
    std::vector<Bytes> data;
    for (size_t k = 0; k < kMessages; ++k) data.push_back(message(sizes[k], k));
    std::vector<OperationPtr> sends;
    for (size_t k = 0; k < kMessages; ++k)
      for (int p = 0; p < 3; ++p)
        if (p != c.rank()) sends.push_back(start_send(c, data[k], p, k));
    must(c.barrier());
    std::shuffle(order.begin(), order.end(), random);
    for (size_t k : order) {
      for (int p = 0; p < 3; ++p)
        if (p != c.rank()) receive(c, sizes[k], k, p, k);
    }
    for (auto& op : sends) must(op);
  });
}

// More than a peer may announce: the sender delays them, in order.
TEST_P(EarlyMessages, BeyondWhatCanBeAnnouncedStayWithTheirSender) {
  constexpr size_t kLarge = 2 * kEagerRoom / kLargest;  // take all the room
  constexpr size_t kMessages = kLarge + kMaxAnnounced + 1000;
  const auto bytes = [](size_t k) { return k < kLarge ? kLargest : 1; };
  run_ranks(2, GetParam(), [&](Communicator& c) {
    const Bytes data = message(kLargest, 0);
    std::vector<OperationPtr> sends;
    for (size_t k = 0; k < kMessages && c.rank() == 0; ++k)
      sends.push_back(c.send(data.data(), bytes(k), DataType::uint8, 1, k));
    must(c.barrier());
    constexpr size_t kBatch = 500;  // one round trip for all of them
    for (size_t first = 0; first < kMessages && c.rank() == 1; first += kBatch) {
      std::vector<Bytes> arrived;
      std::vector<OperationPtr> receives;
      for (size_t k = first; k < std::min(first + kBatch, kMessages); ++k)
        arrived.emplace_back(bytes(k), 'x');
      for (size_t i = 0; i < arrived.size(); ++i)
        receives.push_back(
            c.recv(arrived[i].data(), arrived[i].size(), DataType::uint8, 0, first + i));
      for (auto& op : receives) must(op);
      for (const Bytes& one : arrived)
        if (one != message(one.size(), 0)) throw std::runtime_error("other bytes have arrived");
    }
    for (auto& op : sends) must(op);
  });
}

// The peers of a sender take its messages in whatever they wait for.
TEST_P(EarlyMessages, AreTakenInDuringACollective) {
  constexpr size_t kMessages = 2000;
  run_ranks(3, GetParam(), [&](Communicator& c) {
    const Bytes data = message(300, 0);
    for (size_t k = 0; k < kMessages && c.rank() == 2; ++k) must(start_send(c, data, 0, k));
    must(c.barrier());
    for (size_t k = 0; k < kMessages && c.rank() == 0; ++k) receive(c, 300, 0, 2, k);
  });
}

// ---- peers that claim what cannot be -----------------------------------------------------------

// One end is the real thing, the other writes headers by hand.
struct Claim {
  std::string name, says;
  std::vector<MessageHeader> headers;
  size_t times = 1;
};
void PrintTo(const Claim& claim, std::ostream* out) { *out << claim.name; }

std::vector<Claim> claims() {
  using H = MessageHeader;
  const size_t room = 2 * kEagerRoom / kEagerCharge;
  return {
      {"more_than_there_is_room_for", "more messages", {{H::kEager, 0, 1, 0, 0}}, room + 1},
      {"too_many_announcements",
       "more announcements",
       {{H::kAnnounce, 1, 1, 9, 0}},
       kMaxAnnounced + 1},
      {"an_eager_message_that_is_large", "eager message of", {{H::kEager, 0, 1, 1 << 20, 0}}},
      {"taking_what_was_not_sent", "taken", {{H::kEager, 0, 1, 0, 64}}},
      {"a_grant_of_nothing", "not announced", {{H::kGrant, 7, 0, 0, 0}}},
      {"data_of_nothing", "not granted", {{H::kData, 7, 0, 0, 0}}},
      {"announcing_twice", "twice", {{H::kAnnounce, 1, 99, 4, 0}, {H::kAnnounce, 1, 98, 4, 0}}},
      {"nonsense", "kind 77", {{77, 0, 0, 0, 0}}},
  };
}

class FalseClaims : public ::testing::TestWithParam<Claim> {};
INSTANTIATE_TEST_SUITE_P(All, FalseClaims, ::testing::ValuesIn(claims()),
                         [](const auto& info) { return info.param.name; });

std::unique_ptr<Mesh> mesh_of(const std::shared_ptr<Store>& store, int rank) {
  Control::Handlers handlers;
  handlers.op_status = [] { return OpStatuses(); };
  handlers.failed = [](const Error&) {};
  handlers.left = [](int) {};
  return make_mesh(store, rank, 2, options_for(rank), std::move(handlers));
}

TEST_P(FalseClaims, AreErrorsThatNameThePeer) {
  auto store = memory_store();
  std::unique_ptr<Mesh> liars;
  std::thread other([&] { liars = mesh_of(store, 1); });
  const auto mesh = mesh_of(store, 0);
  other.join();
  const auto no_devices = make_group_devices({}, 1, -1);
  PointToPoint messages(*mesh, *no_devices);
  int32_t buffers[2];
  for (uint64_t tag : {99, 98}) {
    auto receive = std::make_shared<MessageState>(std::shared_ptr<OperationDriver>(), "recv",
                                                  std::chrono::minutes(1));
    receive->data = &buffers[tag - 98];
    receive->bytes = sizeof buffers[0];
    receive->peer = 1;
    receive->tag = tag;
    messages.add(receive);
  }
  Link& link = *liars->peers[0].link[kPointToPointChannel];
  Status s;
  std::vector<std::shared_ptr<OperationState>> finished;
  for (size_t k = 0; k < GetParam().times && s.ok(); ++k) {
    for (const auto& header : GetParam().headers)
      ASSERT_TRUE(link.post_send(&header, sizeof header));
    bool progressed = false;
    Completions now;
    ASSERT_TRUE(link.poll(now));
    s = messages.step(true, progressed, finished);
  }
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message().find(GetParam().says), std::string::npos) << s.error().message();
  EXPECT_EQ(s.error().peer, 1);
  for (auto* one : {mesh.get(), liars.get()})
    for (Peer& peer : one->peers)
      for (auto& each : peer.link)
        if (each) each->abort();
  messages.drop(finished);
}

// ---- the end -----------------------------------------------------------------------------------

// A message that is pending when its group ends must not keep the group (its memory, descriptors
// and threads) alive.
TEST_P(EarlyMessages, KeepNoGroupAliveThatHasEnded) {
  const auto resources = [] {
    const auto count = [](const char* folder) {
      return std::distance(std::filesystem::directory_iterator(folder), {});
    };
    return std::pair(count("/proc/self/task"), count("/proc/self/fd"));
  };
  const auto before = resources();
  for (int round = 0; round < 2; ++round) {
    run_ranks(2, GetParam(), [&](Communicator& c) {
      const Bytes data = message(100000, 0);
      Bytes other(100000);
      auto announced = start_send(c, data, 1 - c.rank(), 5);
      auto received = c.recv(other.data(), 7, DataType::uint8, 1 - c.rank(), 6);
      (void)c.barrier()->wait();
      if (round == 0) (void)c.shutdown(std::chrono::milliseconds(1));
      if (round == 1) c.abort("enough");
      EXPECT_FALSE(announced->wait());
      EXPECT_FALSE(received->wait());
    });
    // A thread that was joined may still be listed.
    for (const auto end = patiently(); resources() != before && !end.passed();)
      std::this_thread::yield();
    EXPECT_EQ(resources(), before);
  }
}

}  // namespace
}  // namespace ringwood::testing
