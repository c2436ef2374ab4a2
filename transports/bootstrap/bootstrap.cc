#include "transports/bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "transports/base/host.h"
#include "transports/base/log.h"
#include "transports/bootstrap/bootstrap_messages.h"
#include "transports/bootstrap/net.h"

namespace ringwood {
namespace {

constexpr const char* kIntroductions = "host";
constexpr const char* kTwice = "twice";

// Between two looks of a rank that waits for its welcome whether its hello is still there.
constexpr Duration kFirstLook = std::chrono::milliseconds(500);
constexpr Duration kLongestLook = std::chrono::seconds(30);
// For the first of two processes of a rank to write its introduction.
constexpr Duration kFirstOneTime = std::chrono::seconds(5);

std::string to_hex(std::span<const uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// Says whose it is, too.
std::string fresh_number() {
  return fmt::format("{}-{}-{}", to_hex(random_session()), getpid(), host_name());
}

// For people.
std::string process_of(const std::string& number) {
  const size_t pid = number.find('-'), host = number.find('-', pid + 1);
  if (pid == std::string::npos || host == std::string::npos) return "another process";
  return fmt::format("process {} on {}", number.substr(pid + 1, host - pid - 1),
                     number.substr(host + 1, kMaxToken));
}

std::string key_of(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }
std::string welcome_key(const std::string& number) { return "welcome/" + number; }
// From 1 on; the first is in key_of(what, 0).
std::string piece_key(const char* what, uint32_t piece) {
  return fmt::format("{}/all/{}", what, piece);
}

Reason reason_of(const Error& error) { return {error.code, error.rank, error.host, error.cause}; }

Error damaged(int rank) {
  return Error(ErrorCode::internal,
               fmt::format("what rank {} has written in the store is damaged", rank));
}

std::string text_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

Bootstrap::Bootstrap(std::shared_ptr<Store> store, int rank, int size, const Options& options,
                     Duration remind_every)
    : root_(std::move(store)),
      options_(options),
      deadline_(Deadline::after(options.init_timeout)),
      remind_every_(remind_every) {
  me_.rank = rank;
  me_.size = size;
  if (!options.key_file.empty()) me_.key = key_from_file(options.key_file);
}

void Bootstrap::enter() { store_ = prefix_store(root_, to_hex(me_.session) + "/"); }

std::vector<std::string> Bootstrap::meet(const Introduce& introduce, std::string& announcement) {
  if (me_.rank != 0) {
    await_welcome(announcement);
    join();
    return exchange(kIntroductions, [&] { return introduce(announcement); });
  }
  const std::string mine = introduce(announcement);
  me_.session = random_session();
  enter();
  return exchange(kIntroductions, [&] {
    welcome_all(announcement);
    return mine;
  });
}

// Returns when all ranks have written under the session. Their hellos are removed before any of
// them can go on, and so cannot be taken for those of the next group. Later hellos are replied to,
// too: of a rank that exists twice both come into the session, where that is found.
void Bootstrap::welcome_all(const std::string& announcement) {
  Welcome said{me_.session, std::nullopt, announcement, std::nullopt};
  if (options_.key_file.empty()) said.key = me_.key = random_key();
  const std::string text = encode(said);
  std::set<int> expected;
  for (int r = 1; r < me_.size; ++r) expected.insert(r);
  for (auto moved_at = Clock::now(); !expected.empty();) {
    const auto began = Clock::now();
    for (int r = 1; r < me_.size; ++r) {
      if (welcome(r, text)) moved_at = Clock::now();
      if (expected.count(r) == 0 || welcomed_.count(r) == 0) continue;
      if (!store_->has(key_of(kIntroductions, r), deadline_)) continue;
      root_->remove(key_of("hello", r));
      expected.erase(r);
      moved_at = Clock::now();
    }
    if (expected.empty()) break;
    end_if_twice();
    const std::vector<int> absent(expected.begin(), expected.end());
    if (deadline_.passed()) throw missing(absent);
    const auto now = Clock::now();
    remind([&] { return absent; });
    // It takes half of the store's time at most, however many are missing.
    sleep_within(std::max(poll_pause(now - moved_at), now - began), deadline_);
  }
  for (const auto& [rank, numbers] : welcomed_)
    for (const std::string& number : numbers) root_->remove(welcome_key(number));
  welcomed_.clear();
}

// True if there was a hello that had not been replied to.
bool Bootstrap::welcome(int rank, const std::string& text) {
  const std::string number = hello_of(rank);
  if (number.empty() || !welcomed_[rank].insert(number).second) return false;
  root_->set(welcome_key(number), text, deadline_);
  return true;
}

// "": there is none.
std::string Bootstrap::hello_of(int rank) {
  const std::string key = key_of("hello", rank);
  return root_->has(key, deadline_) ? root_->get(key, deadline_) : "";
}

void Bootstrap::await_welcome(std::string& announcement) {
  number_ = fresh_number();
  root_->set(key_of("hello", me_.rank), number_, deadline_);
  std::string text;
  try {
    // The others hear of rank 0 from the lowest of them.
    const auto absent = [this] {
      for (int r = 1; r < me_.rank; ++r)
        if (root_->has(key_of("hello", r), deadline_)) return std::vector<int>{};
      return absent_with_root();
    };
    text = await(*root_, welcome_key(number_), absent, [this] { return welcome_of_another(); });
  } catch (const Error& e) {
    if (e.code != ErrorCode::timeout) throw;
    end_if_not_alone();
    throw missing(absent_with_root());
  }
  Welcome said;
  if (ByteReader(text).number<uint16_t>() != kProtocolVersion)
    throw Error(ErrorCode::unsupported,
                fmt::format("rank 0 speaks another version of the protocol than this rank, {}; "
                            "install the same release on all hosts",
                            kProtocolVersion));
  if (!decode(text, said)) throw Error(ErrorCode::internal, "the session in the store is damaged");
  if (said.reason) end_with(*said.reason, me_.rank);
  if (said.key.has_value() != options_.key_file.empty())
    throw Error(
        ErrorCode::invalid_argument,
        "RINGWOOD_KEY_FILE is set on this rank or on rank 0 only: set it alike on all ranks");
  me_.session = said.session;
  if (said.key) me_.key = *said.key;
  announcement = said.announcement;
  enter();
}

// Another process of this rank has written over this one's hello. Once rank 0 has replied to that,
// this one goes into the session as well; until then "". If the hello has gone, rank 0 has the
// other one already, or that has given up.
std::string Bootstrap::welcome_of_another() {
  const std::string last = hello_of(me_.rank);
  if (last == number_) return "";
  if (last.empty()) throw twice("");
  const std::string key = welcome_key(last);
  return root_->has(key, deadline_) ? root_->get(key, deadline_) : "";
}

// Rank 0 has not come in time. Throws if another process of this rank has, and tells that, whose
// deadline is later.
void Bootstrap::end_if_not_alone() {
  const std::string last = hello_of(me_.rank);
  if (last == number_) return;
  const Error error = twice(last.empty() ? "" : process_of(last));
  if (!last.empty())
    root_->set(welcome_key(last), encode(Welcome{{}, {}, "", reason_of(error)}), deadline_);
  throw Error(error);
}

// Precondition: in the session, which is new: who finds that its rank has joined it is one too many.
void Bootstrap::join() {
  if (store_->add(key_of("joined", me_.rank), 1, deadline_) == 1) return;
  Contribution first;
  try {
    const std::string key = key_of(kIntroductions, me_.rank);
    decode(store_->get(key, deadline_.within(kFirstOneTime)), first);
  } catch (const Error& e) {
    if (e.code != ErrorCode::timeout) throw;
  }
  const Error error = twice(first.number.empty() ? "" : process_of(first.number));
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
                      me_.rank, other.empty() ? "another process" : other, process_of(number_)));
  e.rank = me_.rank;
  e.host = host_name();
  return e;
}

std::vector<std::string> Bootstrap::exchange(const char* what, const Make& make) {
  exchanges_.push_back({what});
  std::vector<std::string> all;
  std::string mine;
  try {
    mine = make();
    if (me_.rank == 0) {
      all = collect(what, mine);
      hand_out(what, all);
    }
  } catch (Error& error) {
    if (error.rank < 0) error.rank = me_.rank;
    if (error.host.empty()) error.host = host_name();
    tell(what, error);
    throw;
  }
  if (me_.rank == 0) return all;
  store_->set(key_of(what, me_.rank), encode(Contribution{std::nullopt, mine, number_}), deadline_);
  return read_all(what);
}

// Rank 0: of all ranks, by rank.
std::vector<std::string> Bootstrap::collect(const char* what, const std::string& mine) {
  std::vector<std::string> all = {mine};
  for (int r = 1; r < me_.size; ++r) all.push_back(await_value(what, r));
  return all;
}

// The first piece last: who has read it finds the others.
void Bootstrap::hand_out(const char* what, const std::vector<std::string>& all) {
  const std::string text = encode(ValuesOfAll{all});
  uint32_t& pieces = exchanges_.back().pieces;
  for (size_t at = kMaxPiece; at < text.size(); at += kMaxPiece)
    store_->set(piece_key(what, pieces++), text.substr(at, kMaxPiece), deadline_);
  const std::string first = encode(FirstPiece{pieces, text.substr(0, kMaxPiece)});
  store_->set(key_of(what, 0), encode(Contribution{std::nullopt, first, ""}), deadline_);
}

// Other ranks: what rank 0 has handed out.
std::vector<std::string> Bootstrap::read_all(const char* what) {
  asking_ = what;
  FirstPiece first;
  ValuesOfAll all;
  bool whole = decode(await_value(what, 0), first);
  for (uint32_t i = 1; whole && i < first.pieces; ++i)
    first.bytes += store_->get(piece_key(what, i), deadline_);
  whole = whole && decode(first.bytes, all) && all.by_rank.size() == static_cast<size_t>(me_.size);
  if (!whole) throw damaged(0);
  asking_ = nullptr;
  return std::move(all.by_rank);
}

std::string Bootstrap::await_value(const char* what, int rank) {
  const auto absent = [&] { return absent_from(*store_, what); };
  std::string text;
  try {
    text = await(*store_, key_of(what, rank),
                 [&] { return me_.rank == 0 ? absent() : std::vector<int>{}; });
  } catch (const Error& e) {
    if (e.code != ErrorCode::timeout) throw;
    const std::vector<int> others = absent();
    throw missing(others.empty() ? std::vector{rank} : others);
  }
  Contribution theirs;
  if (!decode(text, theirs)) throw damaged(rank);
  if (!theirs.reason) return theirs.value;
  end_with(*theirs.reason, rank);
}

// Rank `from` has passed it on.
void Bootstrap::end_with(const Reason& reason, int from) const {
  Error error(reason.code, reason.cause);
  const int whose = reason.rank;  // anybody's bytes
  error.rank = whose >= 0 && whose < me_.size ? whose : from;
  error.host = reason.host;
  throw Error(error);
}

// Writes the error in place of this rank's value. The key stays, as others may yet read it. If the
// store cannot be reached now, they find out by themselves.
void Bootstrap::tell(const char* what, const Error& error) try {
  store_->set(key_of(what, me_.rank), encode(Contribution{reason_of(error), "", ""}),
              Deadline::after(Duration::zero()));
} catch (const Error&) {
}

void Bootstrap::remove_keys() {
  if (me_.rank != 0) return;
  for (const Exchange& one : exchanges_) {
    for (uint32_t i = 1; i < one.pieces; ++i) store_->remove(piece_key(one.what, i));
    for (int r = 0; r < me_.size; ++r) store_->remove(key_of(one.what, r));
  }
  for (int r = 1; r < me_.size; ++r) store_->remove(key_of("joined", r));
}

// The reason that rank 0 gave, and the values of a completed exchange, stay: other ranks may still
// be reading them.
void Bootstrap::give_up() noexcept {
  try {
    // Not that of another process.
    if (me_.rank != 0 && hello_of(me_.rank) == number_) root_->remove(key_of("hello", me_.rank));
    for (const auto& [rank, numbers] : welcomed_)
      for (const std::string& number : numbers) root_->remove(welcome_key(number));
    if (asking_ != nullptr) store_->remove(key_of(asking_, me_.rank));
  } catch (const std::exception&) {
  }
}

std::string Bootstrap::await(Store& store, const std::string& key, const Absent& absent,
                             const Look& look) {
  for (Duration pause = kFirstLook;; pause = std::min(2 * pause, kLongestLook)) {
    const Duration silence = reminded_ + remind_every_ - Clock::now();
    try {
      return store.get(key, deadline_.within(look ? std::min(pause, silence) : silence));
    } catch (const Error& e) {
      if (e.code != ErrorCode::timeout || deadline_.passed()) throw;
    }
    if (look)
      if (std::string found = look(); !found.empty()) return found;
    remind(absent);
  }
}

void Bootstrap::remind(const Absent& absent) {
  if (Clock::now() - reminded_ < remind_every_) return;
  const std::vector<int> awaited = absent();
  if (!awaited.empty())
    log(LogLevel::warn, "start",
        fmt::format("has waited {:.0f} s for {} of {} ranks: {}; gives up in {:.0f} s",
                    seconds_since(began_), awaited.size(), me_.size, text_of(awaited),
                    seconds_in(deadline_.left())));
  reminded_ = Clock::now();
}

std::vector<int> Bootstrap::absent_from(Store& store, const char* what) const {
  std::vector<int> absent;
  for (int r = 1; r < me_.size; ++r)
    if (r != me_.rank && !store.has(key_of(what, r), deadline_)) absent.push_back(r);
  return absent;
}

std::vector<int> Bootstrap::absent_with_root() const {
  std::vector<int> absent = absent_from(*root_, "hello");
  absent.insert(absent.begin(), 0);
  return absent;
}

Error Bootstrap::missing(const std::vector<int>& absent) const {
  Error e(ErrorCode::timeout,
          fmt::format("{} of {} ranks did not come within {:.1f} s: missing {}; is the world size "
                      "right, and do all run and reach the same store?",
                      absent.size(), me_.size, seconds_in(options_.init_timeout), text_of(absent)));
  e.rank = me_.rank;
  e.host = host_name();
  if (!absent.empty()) e.peer = absent.front();
  return e;
}

}  // namespace ringwood
