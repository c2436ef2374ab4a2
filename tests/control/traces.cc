// What ranks have recorded, asked for while they run: the text of any rank by way of any, what is
// bounded, what strangers may do, and that neither heartbeats nor deaths wait for it.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <random>

#include "tests/control/control_members.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/control/status/status_socket.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// Other bytes for each rank, and no period that a piece could have.
std::string text_of(int rank, size_t bytes) {
  std::string text(bytes, ' ');
  std::mt19937 random(static_cast<unsigned>(rank));
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// In a thread, as a group does.
std::function<void(TraceDone)> in_a_thread(std::string text, int ms = 0) {
  return [text = std::move(text), ms](const TraceDone& done) {
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      done(text);
    }).detach();
  };
}

// A watcher at one rank.
class Reader {
 public:
  explicit Reader(const StatusName& name) : fd_(must_connect(name)) {}

  Result<TracePiece> ask(const TraceQuery& query, Deadline deadline = patiently()) {
    return ask_trace(fd_.get(), query, deadline);
  }
  TraceState state(const TraceQuery& query) {
    auto piece = ask(query);
    EXPECT_TRUE(piece.ok()) << piece.error().message();
    return piece.ok() ? piece->state : TraceState::failed;
  }
  // The whole text, or in a few words why not.
  std::string read(uint64_t text, int rank) {
    std::string all;
    for (;;) {
      auto piece = ask({TraceAsk::piece, text, rank, static_cast<uint32_t>(all.size())});
      if (!piece) return "error: " + piece.error().cause;
      EXPECT_LE(piece->bytes.size(), kMaxTracePiece);
      if (piece->state == TraceState::making) {
        poll(nullptr, 0, 2);
        continue;
      }
      if (piece->state == TraceState::failed) return "failed: " + piece->bytes;
      if (piece->state == TraceState::silent) return "silent";
      if (piece->state != TraceState::here)
        return "state " + std::to_string(static_cast<int>(piece->state));
      all += piece->bytes;
      if (all.size() == piece->total) return all;
    }
  }
  // Of a rank that runs, though it may be slow to answer.
  std::string read_patiently(uint64_t text, int rank) {
    const Deadline patience = patiently();
    std::string all = read(text, rank);
    while (all == "silent" && !patience.passed()) all = read(text, rank);
    return all;
  }

 private:
  static OwnedFd must_connect(const StatusName& name) {
    auto fd = connect_status(name, patiently());
    if (!fd) throw fd.error();
    return std::move(*fd);
  }
  OwnedFd fd_;
};

constexpr uint64_t kText = 0x1234567890abcdef;

TEST(Traces, AnyRankTellsTheTextOfAny) {
  constexpr int kRanks = 5;
  auto members = sit_down(kRanks, unhurried());
  const auto length = [](int rank) {
    return rank == 1 ? size_t{0} : rank == 2 ? size_t{kMaxTracePiece} : size_t{3} << 20;
  };
  for (int rank = 0; rank < kRanks; ++rank)
    members[rank]->set_trace(in_a_thread(text_of(rank, length(rank)), 20));
  const auto names = names_of();
  ASSERT_EQ(names.size(), size_t{kRanks});
  for (const int asked : {0, 3}) {
    Reader reader(names[asked]);
    const uint64_t text = kText + static_cast<uint64_t>(asked);
    EXPECT_EQ(reader.state({TraceAsk::piece, text, asked, 0}), TraceState::unknown);
    EXPECT_EQ(reader.state({TraceAsk::begin_all, text, 0, 0}), TraceState::making);
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_TRUE(reader.read(text, rank) == text_of(rank, length(rank))) << rank;
    EXPECT_EQ(reader.state({TraceAsk::piece, text, kRanks, 0}), TraceState::absent);
    auto end = reader.ask({TraceAsk::piece, text, 2, kMaxTraceText});
    EXPECT_FALSE(end.ok() && end->state == TraceState::here) << "beyond its end";
  }
  for (const auto& member : members) EXPECT_TRUE(member->told.failed().empty());
}

TEST(Traces, AsManyAsAreAskedAtOnceAreRead) {
  auto members = sit_down(3, unhurried());
  for (int rank = 0; rank < 3; ++rank)
    members[rank]->set_trace(in_a_thread(text_of(rank, 1 << 20)));
  const auto names = names_of();
  std::vector<std::thread> readers;
  std::atomic<int> right{0};
  for (int i = 0; i < 6; ++i)
    readers.emplace_back([&, i] {
      Reader reader(names[i % 3]);
      const auto text = static_cast<uint64_t>(i / 3);  // three of them share one
      (void)reader.ask({TraceAsk::begin_all, text, 0, 0});
      for (int rank = 0; rank < 3; ++rank)
        right += reader.read(text, rank) == text_of(rank, 1 << 20);
    });
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(right.load(), 18);
}

TEST(Traces, WhatCannotBeToldIsSaid) {
  auto members = sit_down(2, unhurried());
  const auto names = names_of();
  Reader reader(names[1]);
  const auto told = [&](uint64_t text) {
    EXPECT_EQ(reader.state({TraceAsk::begin, text, 1, 0}), TraceState::making);
    return reader.read(text, 1);
  };
  EXPECT_EQ(told(1), "failed: no records here");
  members[1]->set_trace(in_a_thread(std::string(kMaxTraceText + 1, 'x')));
  poll(nullptr, 0, 1100);  // no more than one in a second
  const auto began = Clock::now();
  EXPECT_EQ(told(2), "failed: the text of its records is too long to be sent");
  members[1]->set_trace(in_a_thread("short"));
  const std::string third = told(3);
  if (Clock::now() - began < std::chrono::seconds(1)) {
    EXPECT_EQ(third, "failed: the text of its records is too long to be sent");
  }
  poll(nullptr, 0, 1100);
  EXPECT_EQ(told(4), "short");
  EXPECT_EQ(told(4), "short") << "as often as it is asked for";
  for (uint64_t text = 5; text < 9; ++text) EXPECT_EQ(told(text), "short");
  EXPECT_EQ(reader.state({TraceAsk::piece, 1, 1, 0}), TraceState::unknown) << "bounded";
}

// It may be done after the end, also of its group.
TEST(Traces, AGroupEndsWhileATextIsMade) {
  TraceDone late;
  {
    auto members = sit_down(2, unhurried());
    std::mutex mutex;
    members[1]->set_trace([&](TraceDone done) {
      const std::lock_guard lock(mutex);
      late = std::move(done);
    });
    Reader reader(names_of()[1]);
    EXPECT_EQ(reader.state({TraceAsk::begin, kText, 1, 0}), TraceState::making);
    EXPECT_EQ(reader.state({TraceAsk::piece, kText, 1, 0}), TraceState::making);
  }
  ASSERT_TRUE(late);
  late(std::string(1 << 20, 'x'));
}

TEST(Traces, StrangersBytesHurtNobody) {
  auto members = sit_down(3, unhurried());
  for (int rank = 0; rank < 3; ++rank) members[rank]->set_trace(in_a_thread(text_of(rank, 100)));
  const auto names = names_of();
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    auto fd = connect_status(names[static_cast<size_t>(i) % 3], patiently());
    ASSERT_TRUE(fd.ok());
    TraceQuery query{TraceAsk::begin, random(), static_cast<int>(random() % 4),
                     static_cast<uint32_t>(random() % 200)};
    query.ask = static_cast<TraceAsk>(2 + random() % 3);
    std::string body = encode(query);
    if (i % 2) body[random() % body.size()] = static_cast<char>(random());
    if (i % 5 == 0) body.resize(random() % 40);
    std::string bytes;
    ByteWriter(bytes).blob(body, kMaxQueryBytes);
    // One of a crowd may have been turned away.
    (void)::send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  poll(nullptr, 0, 1100);  // the last one's text may still be shared
  for (int rank = 0; rank < 3; ++rank) {
    Reader reader(names[rank]);
    ASSERT_EQ(reader.state({TraceAsk::begin_all, kText, 0, 0}), TraceState::making);
    EXPECT_EQ(reader.read(kText, 2), text_of(2, 100));
  }
  for (const auto& member : members) EXPECT_TRUE(member->told.failed().empty());
}

// ---- ranks that are processes ------------------------------------------------------------------

void serve_texts(const std::string& place, int rank, int size, size_t bytes,
                 const Reporter& reporter) {
  auto store = file_store(place);
  Member member(*store, rank, size, with_heartbeat(20 * kSlower));
  member.set_trace(in_a_thread(text_of(rank, bytes)));
  reporter.say("here");
  if (member.told.await_failed()) {
    const auto failed = member.told.failed();
    reporter.say(failed.front().message());
  }
}

TEST(Traces, AStoppedRankIsSilentAndTheOthersTell) {
  for (const int stopped : {2, 0}) {
    TemporaryPath place;
    Processes ranks(3, [&](int rank, const Reporter& reporter) {
      auto store = file_store(place.path());
      Member member(*store, rank, 3, with_heartbeat(500));  // silence is told after 0.8 and 1.4 s
      member.set_trace(in_a_thread(text_of(rank, 100'000)));
      reporter.say("here");
      reporter.await_go();
    });
    for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.line(rank), "here");
    ranks.stop(stopped);
    Reader reader(names_of(ranks.pid(1)).at(0));
    const TraceState begun = reader.state({TraceAsk::begin_all, kText, 0, 0});
    EXPECT_EQ(begun, stopped == 0 ? TraceState::silent : TraceState::making);
    EXPECT_EQ(reader.read(kText, 1), text_of(1, 100'000));
    // Nothing piles up for it, however often it is asked for.
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(reader.state({TraceAsk::piece, kText, stopped, 0}), TraceState::silent);
    if (stopped != 0) {
      EXPECT_EQ(reader.read_patiently(kText, 0), text_of(0, 100'000));
    }
    ranks.signal(stopped, SIGCONT);
    const Deadline patience = patiently();
    while (reader.state({TraceAsk::begin, kText + 1, stopped, 0}) == TraceState::silent)
      ASSERT_FALSE(patience.passed());
    EXPECT_EQ(reader.read_patiently(kText + 1, stopped), text_of(stopped, 100'000));
    ranks.go_all();
  }
}

// Texts of the largest size are read without a pause, by two at once, while a rank dies.
TEST(Traces, ADeathIsNoticedWhileTextsAreRead) {
  TemporaryPath place;
  Processes ranks(4, [&](int rank, const Reporter& reporter) {
    serve_texts(place.path(), rank, 4, kMaxTraceText, reporter);
  });
  for (int rank = 0; rank < 4; ++rank) ASSERT_EQ(ranks.line(rank), "here");
  std::atomic<bool> over{false};
  std::atomic<int> pieces{0};
  std::vector<std::thread> readers;
  for (const int rank : {0, 1})
    readers.emplace_back([&, rank] {
      Reader reader(names_of(ranks.pid(rank)).at(0));
      (void)reader.ask({TraceAsk::begin_all, kText, 0, 0});
      for (uint32_t offset = 0; !over; offset = (offset + kMaxTracePiece) % kMaxTraceText) {
        auto piece = reader.ask({TraceAsk::piece, kText, 2, offset});
        if (!piece) return;
        pieces += piece->state == TraceState::here;
      }
    });
  const Deadline patience = patiently();
  while (pieces < 200) ASSERT_FALSE(patience.passed());
  ranks.signal(3, SIGKILL);
  for (const int rank : {0, 1, 2}) EXPECT_PRED2(contains, ranks.line(rank), "rank 3");
  over = true;
  for (auto& reader : readers) reader.join();
}

}  // namespace
}  // namespace ringwood
