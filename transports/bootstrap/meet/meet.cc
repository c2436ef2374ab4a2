// The first half of a Bootstrap: from a rank's hello to the session that it shares with the others
// (bootstrap.h).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "transports/base/host.h"
#include "transports/base/log.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/meet/keys.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store_polls.h"

namespace ringwood {
namespace {

constexpr const char* kIntroductions = "host";

// Between two looks of a rank that waits for rank 0 whether it is still in the list.
constexpr Duration kFirstLook = std::chrono::milliseconds(500);
constexpr Duration kLongestLook = std::chrono::seconds(30);
// For what the first of two processes of a rank is to write: its introduction, or, at the end of
// its time, that it has heard of the other.
constexpr Duration kFirstOneTime = std::chrono::seconds(5);

std::string to_hex(std::span<const uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string process_of(const Hello& hello) {
  return fmt::format("process {} on {}", hello.process, hello.host);
}

}  // namespace

void Bootstrap::enter() { store_ = prefix_store(root_, to_hex(me_.session) + "/"); }

std::vector<std::string> Bootstrap::meet(const Introduce& introduce, std::string& announcement) {
  if (me_.rank != 0) {
    await_welcome(announcement);
    join();
    auto all = exchange(kIntroductions, [&] { return introduce(announcement); });
    number_ = 0;  // by now another process may have it, of the next group
    return all;
  }
  std::string mine = introduce(announcement);
  me_.session = random_session();
  enter();
  return exchange(kIntroductions, [&] {
    welcome_all(announcement);
    return mine;
  });
}

// Returns when all ranks have written under the session. All that have come by then are replied to
// before any of them can go on, so none is taken for one of the next group.
void Bootstrap::welcome_all(const std::string& announcement) {
  Welcome said{false, me_.job, me_.session, std::nullopt, announcement, std::nullopt};
  if (options_.key_file.empty()) said.key = me_.key = random_key();
  std::set<int> expected, welcomed;
  for (int r = 1; r < me_.size; ++r) expected.insert(r);
  for (auto moved_at = Clock::now(); !expected.empty();) {
    const auto began = Clock::now();
    for (const auto& [number, hello] : arrivals_.fresh()) {
      if (reply_to(number, hello, said) && expected.count(hello.rank) > 0)
        welcomed.insert(hello.rank);
      moved_at = Clock::now();
    }
    for (int rank : welcomed)
      if (store_->has(key_of(kIntroductions, rank), deadline_)) expected.erase(rank);
    std::erase_if(welcomed, [&](int rank) { return expected.count(rank) == 0; });
    if (expected.empty()) break;
    end_if_twice();
    std::vector<int> absent(expected.begin(), expected.end());
    if (deadline_.passed()) throw missing(absent);
    const auto now = Clock::now();
    remind([&] { return absent; });
    // It takes half of the store's time at most, however many are missing.
    sleep_within(std::max(poll_pause(now - moved_at), now - began), deadline_);
  }
  arrivals_.finish(std::exchange(welcomed_, {}));
}

// False: it is refused.
bool Bootstrap::reply_to(int64_t number, const Hello& hello, const Welcome& welcome) {
  const std::string why = difference(me_.job, hello.job);
  const std::string who = fmt::format("rank {} on {}", hello.rank, hello.host);
  const bool later = is_later_attempt(me_.job, hello.job);
  if (later && hello.left_over == me_.session)
    throw Error(ErrorCode::network, fmt::format("this rank 0 is left over from an earlier attempt: "
                                                "{} came to its store, and {}",
                                                who, why));
  if (why.empty()) {
    if (log_shows(LogLevel::debug))
      log(LogLevel::debug, "start",
          fmt::format("rank {} has come after {:.3f} s: {}", hello.rank, seconds_since(began_),
                      process_of(hello)));
    arrivals_.reply(number, welcome);
    welcomed_.insert(number);
    return true;
  }
  if (!later) {  // else it may have been killed
    last_refused_ = fmt::format("{}: {}", who, why);
    refusals_.note(last_refused_);
  }
  arrivals_.reply(number, {true, me_.job, me_.session, std::nullopt, "", std::nullopt});
  return false;
}

// The reply of the rank 0 that is not left over from an earlier attempt. One that is ends when it
// hears that this rank is alive.
Welcome Bootstrap::ask_for_welcome() {
  Hello hello{me_.rank, getpid(), host_name(), me_.job, {}};
  for (;;) {
    number_ = arrivals_.add(hello);
    const std::string text = await_reply();
    if (text.empty()) continue;
    Welcome said;
    if (ByteReader(text).number<uint16_t>() != kProtocolVersion)
      throw Error(ErrorCode::unsupported,
                  fmt::format("rank 0 speaks another version of the protocol than this rank, {}; "
                              "install the same release on all hosts",
                              kProtocolVersion));
    if (!decode(text, said))
      throw Error(ErrorCode::internal, "the session in the store is damaged");
    if (!said.refused) return said;
    arrivals_.forget(number_);
    if (!is_later_attempt(said.job, me_.job)) return said;
    hello.left_over = said.session;
  }
}

// "": this rank is not in the list any more.
std::string Bootstrap::await_reply() {
  const std::string key = Arrivals::reply_key(number_);
  for (Duration pause = kFirstLook;; pause = std::min(2 * pause, kLongestLook)) {
    const Deadline look = deadline_.within(std::min(pause, remind_every_));
    if (auto text = get_if_there(*root_, key, look)) return *std::move(text);
    if (arrivals_.is_lost(number_)) return "";
    if (deadline_.passed()) {
      if (auto text = reply_if_not_alone()) return *std::move(text);
      throw missing(absent_with_root());
    }
    // The others hear of rank 0 from the first of them.
    remind(
        [this] { return arrivals_.is_first(number_) ? absent_with_root() : std::vector<int>{}; });
  }
}

void Bootstrap::await_welcome(std::string& announcement) {
  const Welcome said = ask_for_welcome();
  if (said.reason) end_with(*said.reason, me_.rank);
  if (said.refused) {
    Error error(ErrorCode::network, "rank 0 refused this rank: " + difference(me_.job, said.job));
    error.rank = me_.rank;
    error.host = host_name();
    error.peer = 0;
    throw Error(error);
  }
  if (said.key.has_value() != options_.key_file.empty())
    throw Error(
        ErrorCode::invalid_argument,
        "RINGWOOD_KEY_FILE is set on this rank or on rank 0 only: set it alike on all ranks");
  me_.session = said.session;
  if (said.key) me_.key = *said.key;
  announcement = said.announcement;
  enter();
}

// Rank 0 has not come in time. If other processes of this rank came later, tells them and throws.
// If one came before, which may have been killed, returns the reply by which it tells this one: it
// does so at the end of its own time, which may be a moment before the end of this one's.
std::optional<std::string> Bootstrap::reply_if_not_alone() {
  Deadline told = Deadline::after(Duration::zero());  // the first has said it already, and has left
  std::optional<Error> error;
  for (const auto& [number, hello] : arrivals_.unserved()) {
    if (number == number_ || hello.rank != me_.rank || !is_of_this_job(hello)) continue;
    if (number < number_) {
      told = Deadline::after(kFirstOneTime);
      continue;
    }
    if (!error) error = twice(process_of(hello));
    if (!arrivals_.has_reply(number))
      arrivals_.reply(number, {false, me_.job, {}, std::nullopt, "", reason_of(*error)});
  }
  if (error) throw Error(*error);
  const auto text = get_if_there(*root_, Arrivals::reply_key(number_), told);
  Welcome said;
  // Not one of rank 0, which comes too late.
  return text && decode(*text, said) && said.reason ? text : std::nullopt;
}

bool Bootstrap::is_of_this_job(const Hello& hello) const {
  return difference(me_.job, hello.job).empty();
}

// Precondition: in the session, which is new: who finds that its rank has joined it is one too
// many.
void Bootstrap::join() {
  if (store_->add(key_of("joined", me_.rank), 1, deadline_) == 1) return;
  Contribution first;
  const std::string key = key_of(kIntroductions, me_.rank);
  if (const auto text = get_if_there(*store_, key, deadline_.within(kFirstOneTime)))
    decode(*text, first);
  const Error error = twice(first.from);
  store_->set(kTwice, encode(Contribution{reason_of(error), "", ""}), deadline_);
  throw Error(error);
}

// Rank 0.
void Bootstrap::end_if_twice() {
  if (!store_->has(kTwice, deadline_)) return;
  Contribution told;
  if (!decode(store_->get(kTwice, deadline_), told) || !told.reason)
    throw Error(ErrorCode::internal, "what a rank has written in the store is damaged");
  end_with(*told.reason, 0);
}

Error Bootstrap::twice(const std::string& other) const {
  Error e(ErrorCode::invalid_argument,
          fmt::format("rank {} exists twice: {} and {}; give each process a rank of its own, and "
                      "restart all ranks if one is restarted",
                      me_.rank, other.empty() ? "another process" : other, own_process()));
  e.rank = me_.rank;
  e.host = host_name();
  return e;
}

}  // namespace ringwood
