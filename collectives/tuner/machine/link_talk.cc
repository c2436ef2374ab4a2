#include "collectives/tuner/machine/link_talk.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "transports/base/error.h"
#include "transports/base/wait_set.h"

namespace ringwood {
namespace {

constexpr size_t kPiece = 1 << 20;
constexpr int kMaxPings = 20, kMinPings = 3;
constexpr Duration kPingTime = std::chrono::milliseconds(4);
// A thread that need not notice an arrival at once sleeps for so long.
constexpr Duration kPatience = std::chrono::microseconds(200);
constexpr Duration kLongestSleep = std::chrono::milliseconds(10);

[[noreturn]] void refuse(int rank, std::string what) {
  Error e(ErrorCode::internal, fmt::format("measuring the network: rank {} {}", rank, what));
  e.peer = rank;
  throw e;
}

// That this thread has had a core.
double core_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// `each` for every piece of a transfer.
template <class Each>
void in_pieces(uint64_t bytes, Each each) {
  for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, kPiece))
    each(static_cast<size_t>(std::min<uint64_t>(bytes, kPiece)));
}

}  // namespace

LinkTalk::LinkTalk(Mesh& mesh, const Deadline& deadline, bool sleeps, int channel)
    : mesh_(mesh),
      deadline_(deadline.unless(mesh.set_up_failed)),
      channel_(channel),
      sleeps_(sleeps) {
  for (const Completions& total : mesh.totals[channel_])
    posted_.push_back({total.sent, total.received});
}

void LinkTalk::allocate() {
  if (!out_.empty()) return;
  out_.assign(kPiece, std::byte{1});
  in_.assign(kPiece, std::byte{0});
}

void LinkTalk::post_send(int rank, const void* data, size_t bytes) {
  if (Status s = mesh_.peers[rank].link[channel_]->post_send(data, bytes); !s)
    throw Error(std::move(s.error()));
  ++posted_[rank].sends;
  if (std::ranges::count(sending_, rank) == 0) sending_.push_back(rank);
}

void LinkTalk::post_receive(int rank, void* data, size_t bytes) {
  if (Status s = mesh_.peers[rank].link[channel_]->post_recv(data, bytes); !s)
    throw Error(std::move(s.error()));
  ++posted_[rank].receives;
}

// Whether nothing that was posted for this rank is left. An error counts only where something is.
bool LinkTalk::poll(int rank) {
  Completions& total = mesh_.totals[channel_][rank];
  Status s;
  do s = mesh_.peers[rank].link[channel_]->poll(total);
  while (s && total.more);  // pause() may sleep
  const bool done = total.sent == posted_[rank].sends && total.received == posted_[rank].receives;
  if (!s && !done) throw Error(std::move(s.error()));
  return done;
}

void LinkTalk::pause(int rank, Clock::time_point begin, bool patient) {
  const auto now = Clock::now();
  if (deadline_.passed(now)) {
    if (mesh_.set_up_failed) throw Error(mesh_.set_up_error);
    Error e(ErrorCode::timeout,
            fmt::format("measuring the network: rank {} did not answer in time", rank));
    e.peer = rank;
    throw e;
  }
  if (patient && now - begin > kPatience)
    std::this_thread::sleep_for(kPatience);
  else if (sleeps_)
    sleep();
  else
    std::this_thread::yield();
}

// As runtime/waiter.h: what arrives between the last iteration and arming would wake nobody.
void LinkTalk::sleep() {
  if (std::exchange(armed_, true)) {
    mesh_.wait_set->wait(kLongestSleep);
    disarm();
  } else {
    mesh_.arm();
  }
}

void LinkTalk::disarm() {
  if (std::exchange(armed_, false)) mesh_.disarm();
}

void LinkTalk::await_receives(int rank, bool patient) {
  const auto begin = Clock::now();
  while (true) {
    std::erase_if(sending_, [&](int to) { return to != rank && poll(to); });
    (void)poll(rank);
    if (mesh_.totals[channel_][rank].received == posted_[rank].receives) return disarm();
    pause(rank, begin, patient);
  }
}

void LinkTalk::await_sends() {
  const auto begin = Clock::now();
  while (true) {
    std::erase_if(sending_, [&](int to) {
      (void)poll(to);
      return mesh_.totals[channel_][to].sent == posted_[to].sends;
    });
    if (sending_.empty()) return disarm();
    pause(sending_.front(), begin, false);
  }
}

void LinkTalk::send_texts(const std::vector<int>& ranks, const std::string& text) {
  const uint64_t bytes = text.size();
  for (const int rank : ranks) {
    post_send(rank, &bytes, sizeof bytes);
    if (bytes > 0) post_send(rank, text.data(), bytes);
  }
  await_sends();
}

std::string LinkTalk::receive_text(int rank, size_t max, bool patient) {
  uint64_t bytes = 0;
  post_receive(rank, &bytes, sizeof bytes);
  await_receives(rank, patient);
  if (bytes > max) refuse(rank, fmt::format("announced a text of {} bytes", bytes));
  std::string text(bytes, '\0');
  if (bytes > 0) {
    post_receive(rank, text.data(), bytes);
    await_receives(rank);
  }
  return text;
}

// A word of 0 is a ping; any other is the result.
double LinkTalk::ping(int rank) {
  allocate();
  double best = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < kMaxPings; ++i) {
    uint64_t word = 0, echo = 1;
    const auto sent = Clock::now();
    post_send(rank, &word, sizeof word);
    post_receive(rank, &echo, sizeof echo);
    await_receives(rank);
    await_sends();
    const auto now = Clock::now();
    const double half = std::max(seconds_in(now - sent) / 2, 1e-9);
    if (i > 0) best = i == 1 ? half : std::min(best, half);  // the first one wakes the other side
    if (i + 1 >= kMinPings && now - begin > kPingTime) break;
  }
  const auto word = std::bit_cast<uint64_t>(best);
  post_send(rank, &word, sizeof word);
  await_sends();
  return best;
}

double LinkTalk::answer_pings(int rank) {
  allocate();
  while (true) {
    uint64_t word = 0;
    post_receive(rank, &word, sizeof word);
    await_receives(rank);
    const auto seconds = std::bit_cast<double>(word);
    if (word != 0 && (!std::isfinite(seconds) || seconds <= 0)) refuse(rank, "sent no time");
    if (word != 0) return seconds;
    post_send(rank, &word, sizeof word);
    await_sends();
  }
}

double LinkTalk::take_turns(int rank, int times, bool first) {
  const double begin = core_seconds();
  for (int i = 0; i < times; ++i) {
    uint64_t word = 0, theirs = 0;
    if (first) post_send(rank, &word, sizeof word);
    post_receive(rank, &theirs, sizeof theirs);
    await_receives(rank);
    if (!first) post_send(rank, &word, sizeof word);
    await_sends();
  }
  return (core_seconds() - begin) / std::max(1, times);
}

double LinkTalk::stream(int rank, int count) {
  const uint64_t word = 0;
  uint64_t receipt = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    post_send(rank, &word, sizeof word);
    (void)poll(rank);  // else they would leave together
  }
  post_receive(rank, &receipt, sizeof receipt);
  await_receives(rank);
  await_sends();
  return seconds_since(begin);
}

void LinkTalk::receive_stream(int rank, int count) {
  std::vector<uint64_t> words(static_cast<size_t>(count));
  const uint64_t receipt = 1;
  for (uint64_t& word : words) post_receive(rank, &word, sizeof word);
  await_receives(rank);
  post_send(rank, &receipt, sizeof receipt);
  await_sends();
}

auto LinkTalk::transfer(int to, uint64_t bytes, int from) -> Transfer {
  allocate();
  Transfer result;
  uint64_t receipt = 0;
  const auto begin = Clock::now();
  const double core_before = core_seconds();
  if (to >= 0) {
    post_send(to, &bytes, sizeof bytes);
    in_pieces(bytes, [&](size_t piece) { post_send(to, out_.data(), piece); });
  }
  if (from >= 0) {
    post_receive(from, &result.received, sizeof result.received);
    await_receives(from);
    if (result.received > kMaxTransfer) refuse(from, "announced too large a transfer");
    in_pieces(result.received, [&](size_t piece) { post_receive(from, in_.data(), piece); });
    await_receives(from);
    if (result.received > 0) post_send(from, &result.received, sizeof result.received);
  }
  if (to >= 0 && bytes > 0) {
    post_receive(to, &receipt, sizeof receipt);
    await_receives(to);
    if (receipt != bytes) refuse(to, "acknowledged something else");
    result.seconds = seconds_since(begin);
  }
  await_sends();
  result.core = core_seconds() - core_before;
  return result;
}

}  // namespace ringwood
