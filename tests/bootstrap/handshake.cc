// The keyed handshake: which peers are let in, which are refused and why, and that no byte of it
// can be changed.
#include "transports/bootstrap/handshake.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <random>
#include <span>
#include <thread>

#include "tests/bootstrap/two_ranks.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

TEST(Handshake, TellsTheAcceptorWhoComesAndWhatFor) {
  for (Purpose purpose : {Purpose::control, Purpose::store, purpose_of("any")}) {
    for (uint16_t channel : {0, 1, 65535}) {
      auto outcome = shake(two_ranks(), {purpose, channel, 1, 0});
      ASSERT_TRUE(outcome.dialled.ok()) << outcome.dialled.error().message();
      ASSERT_TRUE(outcome.accepted.ok()) << outcome.accepted.error().message();
      EXPECT_EQ(outcome.accepted->purpose, purpose);
      EXPECT_EQ(outcome.accepted->channel, channel);
      EXPECT_EQ(outcome.accepted->from, 1);
      EXPECT_EQ(outcome.accepted->to, 0);
    }
  }
}

TEST(Handshake, LeavesWhatFollowsInTheSocket) {
  for (bool blocking : {true, false}) {
    Two two = two_ranks();
    SocketPair pair;
    if (!blocking) {
      for (int i : {0, 1}) fcntl(pair[i], F_SETFL, fcntl(pair[i], F_GETFL) | O_NONBLOCK);
    }
    std::thread dialler([&] {
      EXPECT_TRUE(dial_handshake(pair[0], two.dialler, kGreeting, patiently()).ok());
      EXPECT_EQ(send(pair[0], "data", 4, 0), 4);
    });
    EXPECT_TRUE(accept_handshake(pair[1], two.acceptor).ok());
    dialler.join();
    char data[8] = {};
    EXPECT_EQ(recv(pair[1], data, sizeof(data), MSG_DONTWAIT), 4);
    EXPECT_STREQ(data, "data");
  }
}

TEST(Handshake, RefusesStrangersAndSaysWhy) {
  struct Case {
    const char* name;
    std::function<void(Two&, Greeting&)> spoil;
    const char* dialler_reads;
    const char* acceptor_reads;
  };
  const Case cases[] = {
      {"key", [](Two& two, Greeting&) { two.dialler.key[31] ^= 1; }, "the keys differ",
       "the keys differ"},
      {"session", [](Two& two, Greeting&) { two.dialler.session[0] ^= 1; },
       "another start of the job", "another start of the job"},
      {"to", [](Two&, Greeting& g) { g.to = 2; }, "meant for another rank",
       "meant for another rank"},
      {"from beyond", [](Two&, Greeting& g) { g.from = 4; }, "not one of the group",
       "not one of the group"},
      {"from below", [](Two&, Greeting& g) { g.from = -1; }, "not one of the group",
       "not one of the group"},
      {"from itself", [](Two&, Greeting& g) { g.from = 0; }, "not one of the group",
       "not one of the group"},
      {"purpose", [](Two&, Greeting& g) { g.purpose = Purpose(6); },
       "purpose of the connection is not known", "purpose of the connection is not known"},
      {"job", [](Two& two, Greeting&) { two.dialler.job.ids[3] = "Slurm job 78"; },
       "it belongs to Slurm job 77, this side to Slurm job 78",
       "it belongs to Slurm job 78, this side to Slurm job 77"},
      {"ranks", [](Two& two, Greeting&) { two.dialler.job.ranks = 8; },
       "its group has 4 ranks, this side's 8", "its group has 8 ranks, this side's 4"},
      {"attempt", [](Two& two, Greeting&) { two.dialler.job.attempt = 0; },
       "it is of attempt 1 of the job, this side of attempt 0",
       "it is of attempt 0 of the job, this side of attempt 1"},
      {"user", [](Two& two, Greeting&) { two.dialler.job.user = 1001; },
       "it runs as user 1000 of this host, this side as user 1001",
       "it runs as user 1001 of this host, this side as user 1000"},
  };
  for (const Case& c : cases) {
    Two two = two_ranks();
    Greeting greeting = kGreeting;
    c.spoil(two, greeting);
    Outcome outcome = shake(two, greeting);
    ASSERT_FALSE(outcome.dialled.ok()) << c.name;
    ASSERT_FALSE(outcome.accepted.ok()) << c.name;
    EXPECT_EQ(outcome.dialled.error().code, ErrorCode::invalid_argument) << c.name;
    EXPECT_PRED2(contains, outcome.dialled.error().cause, c.dialler_reads) << c.name;
    EXPECT_PRED2(contains, outcome.accepted.error().cause, c.acceptor_reads) << c.name;
  }
}

// ---- changed messages --------------------------------------------------------------------------

// The conversation without sockets: `change` sees every message on its way (0 hello, 1
// challenge, 2 proof, 3 result).
struct Ends {
  bool dialler_in, acceptor_in;
};

// What it answers to as much of this as it wants, in as many pieces.
template <class Steps>
Bytes said_to(Steps& steps, std::span<const uint8_t> message) {
  Bytes answer;
  while (answer.empty() && steps.wanted() > 0 && message.size() >= steps.wanted()) {
    const auto piece = message.first(steps.wanted());
    message = message.subspan(piece.size());
    answer = steps.take(piece);
  }
  return answer;
}

Ends converse(const Two& two, const std::function<void(int, Bytes&)>& change) {
  DialSteps dialler(two.dialler, kGreeting);
  AcceptSteps acceptor(two.acceptor);
  Bytes message = dialler.hello();
  for (int number = 0; !message.empty(); ++number) {
    change(number, message);
    message = number % 2 == 0 ? said_to(acceptor, message) : said_to(dialler, message);
  }
  return {dialler.result().ok(), acceptor.result().ok()};
}

TEST(Handshake, NoBitOfItCanBeChanged) {
  Two two = two_ranks();
  const size_t sizes[] = {266, 64, 32, 249};
  for (int number = 0; number < 4; ++number) {
    for (size_t bit = 0; bit < 8 * sizes[number]; ++bit) {
      Ends ends = converse(two, [&](int at, Bytes& message) {
        ASSERT_EQ(message.size(), sizes[at]);
        if (at == number) message[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
      });
      EXPECT_FALSE(ends.dialler_in) << "message " << number << " bit " << bit;
      EXPECT_EQ(ends.acceptor_in, number == 3) << "message " << number << " bit " << bit;
    }
  }
}

TEST(Handshake, RecordedMessagesAreWorthNothingLater) {
  Two two = two_ranks();
  std::vector<Bytes> recorded;
  Ends first = converse(two, [&](int, Bytes& message) { recorded.push_back(message); });
  ASSERT_TRUE(first.dialler_in && first.acceptor_in);
  // A replaying dialler, then a replaying acceptor.
  for (int parity : {0, 1}) {
    Ends again = converse(two, [&](int at, Bytes& message) {
      if (at % 2 == parity) message = recorded[at];
    });
    EXPECT_FALSE(again.dialler_in);
    EXPECT_FALSE(again.acceptor_in);
  }
}

// The dialler learns nothing against which guesses of the key could be checked.
TEST(Handshake, AcceptorSaysNothingThatDependsOnTheKeyToAStranger) {
  Two two = two_ranks();
  Two stranger = two;
  stranger.dialler.key = random_key();
  std::vector<Bytes> said;
  Ends ends = converse(stranger, [&](int, Bytes& message) { said.push_back(message); });
  EXPECT_FALSE(ends.dialler_in || ends.acceptor_in);
  ASSERT_EQ(said.size(), 4u) << "hello, challenge, the wrong proof, result";
  EXPECT_EQ(std::count(said[1].begin() + 2, said[1].begin() + 32, 0), 30) << "beside the nonce";
  EXPECT_EQ(std::count(said[3].begin() + 1, said[3].end(), 0), 248) << "beside the reason";
}

TEST(Handshake, RandomMessagesNeverGetIn) {
  Two two = two_ranks();
  std::mt19937 random(20261121);
  for (int round = 0; round < 20000; ++round) {
    int target = static_cast<int>(random() % 4);
    Ends ends = converse(two, [&](int at, Bytes& message) {
      if (at != target) return;
      Bytes before = message;
      for (uint8_t& byte : message) {
        if (random() % 3 == 0) byte = static_cast<uint8_t>(random());
      }
      message.resize(random() % 4 == 0 ? random() % (message.size() + 1) : message.size());
      if (message == before) message[0] ^= 0x40;
    });
    ASSERT_FALSE(ends.dialler_in) << "round " << round;
    ASSERT_TRUE(!ends.acceptor_in || target == 3) << "round " << round;
  }
}

TEST(Handshake, OtherVersionIsNamedToBoth) {
  Two two = two_ranks();
  DialSteps dialler(two.dialler, kGreeting);
  AcceptSteps acceptor(two.acceptor);
  Bytes hello = dialler.hello();
  hello[4] = kProtocolVersion + 1;
  Bytes reply = said_to(acceptor, hello);
  ASSERT_EQ(reply.size(), 64u);
  EXPECT_EQ(acceptor.wanted(), 0u);
  EXPECT_PRED2(contains, acceptor.result().error().cause,
               fmt::format("it speaks version {}", kProtocolVersion + 1));
  reply[0] = kProtocolVersion + 3;
  dialler.take(reply);
  EXPECT_EQ(dialler.result().error().code, ErrorCode::unsupported);
  EXPECT_PRED2(contains, dialler.result().error().cause,
               fmt::format("the other side speaks version {}", kProtocolVersion + 3));
}

// A store's session is learned by who comes first, and kept.
TEST(Handshake, AStoreTellsItsSessionOnceAndRefusesThoseOfAnother) {
  const Greeting to_store{Purpose::store, 0, 1, 0};
  Two two = two_ranks();
  two.dialler.session = {};
  for (const bool known : {false, true}) {
    SocketPair pair;
    std::thread acceptor(
        [&] { EXPECT_TRUE(accept_handshake(pair[1], two.acceptor).ok()) << known; });
    const Status dialled =
        dial_handshake(pair[0], two.dialler, to_store, patiently(), &two.dialler.session);
    EXPECT_TRUE(dialled.ok()) << known;
    acceptor.join();
    EXPECT_EQ(two.dialler.session, two.acceptor.session);
  }
  two.acceptor.session = random_session();
  EXPECT_PRED2(contains, shake(two, to_store).dialled.error().cause, "another start of the job");
  two.dialler.session = {};
  EXPECT_FALSE(shake(two, kGreeting).dialled.ok()) << "only a store's";
}

// It is closed without a word of the dialler's being read.
TEST(Handshake, AnotherUserHearsWhyBeforeAndAfterTheOtherSideHasClosed) {
  for (const bool closed_before : {true, false}) {
    Two two = two_ranks();
    SocketPair pair;
    const Bytes refusal = refuse_user(1000, 1001);
    std::thread acceptor;
    const auto refuse = [&] {
      EXPECT_EQ(send(pair[1], refusal.data(), refusal.size(), 0), 64);
      pair.close(1);
    };
    if (closed_before) {
      refuse();
    } else {
      acceptor = std::thread([&] {
        pollfd readable{pair[1], POLLIN, 0};
        EXPECT_EQ(poll(&readable, 1, patiently().left_ms()), 1);
        refuse();
      });
    }
    const Status dialled = dial_handshake(pair[0], two.dialler, kGreeting, patiently());
    ASSERT_FALSE(dialled.ok());
    EXPECT_EQ(dialled.error().code, ErrorCode::invalid_argument);
    EXPECT_PRED2(contains, dialled.error().cause, "it is of user 1000, this process of user 1001");
    if (acceptor.joinable()) acceptor.join();
  }
}

// ---- bad timing --------------------------------------------------------------------------------

// The acceptor's last answer, a part of which arrives: the challenge, then the result.
TEST(Handshake, EveryTruncationEndsTheDialler) {
  Two two = two_ranks();
  for (const int last : {1, 2}) {
    for (const size_t bytes : {0, 1, 2, 63}) {
      SocketPair pair;
      std::thread acceptor([&] {
        int answers = 0;
        (void)accept_handshake(pair[1], two.acceptor, [&](const Bytes& answer) {
          if (answer.empty()) return true;
          const bool whole = ++answers < last;
          EXPECT_LT(bytes, answer.size());
          const size_t sent = whole ? answer.size() : bytes;
          EXPECT_EQ(send(pair[1], answer.data(), sent, 0), static_cast<ssize_t>(sent));
          return whole;
        });
        shutdown(pair[1], SHUT_WR);
      });
      const Status dialled = dial_handshake(pair[0], two.dialler, kGreeting, patiently());
      acceptor.join();
      ASSERT_FALSE(dialled.ok()) << last << ", " << bytes;
      EXPECT_PRED2(contains, dialled.error().cause, "closed the connection during the handshake")
          << last << ", " << bytes;
    }
  }
}

TEST(Handshake, ADripOfBytesEndsAtTheDeadline) {
  Two two = two_ranks();
  SocketPair pair;
  std::atomic<bool> over{false};
  std::thread drip([&] {
    (void)accept_handshake(pair[1], two.acceptor, [&](const Bytes& answer) {
      for (size_t i = 0; i + 1 < answer.size() && !over; ++i) {
        send(pair[1], &answer[i], 1, MSG_NOSIGNAL);
        poll(nullptr, 0, 5);
      }
      return answer.empty();
    });
  });
  const auto began = Clock::now();
  const Status dialled = dial_handshake(pair[0], two.dialler, kGreeting, within(0.1));
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(100));
  over = true;
  drip.join();
  ASSERT_FALSE(dialled.ok());
  EXPECT_EQ(dialled.error().code, ErrorCode::timeout);
}

TEST(Handshake, SilenceEndsAtTheDeadline) {
  Two two = two_ranks();
  SocketPair pair;
  Status dialled = dial_handshake(pair[0], two.dialler, kGreeting, within(0.05));
  ASSERT_FALSE(dialled.ok());
  EXPECT_EQ(dialled.error().code, ErrorCode::timeout);
  EXPECT_PRED2(contains, dialled.error().cause, "did not finish the handshake in time");
}

TEST(Handshake, APeerThatIsGoneIsNoSignal) {
  Two two = two_ranks();
  SocketPair pair;
  pair.close(1);
  Status dialled = dial_handshake(pair[0], two.dialler, kGreeting, patiently());
  ASSERT_FALSE(dialled.ok());
  EXPECT_EQ(dialled.error().code, ErrorCode::network);
}

}  // namespace
}  // namespace ringwood
