#include "transports/bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "transports/base/host.h"
#include "transports/bootstrap/bootstrap_messages.h"
#include "transports/bootstrap/net.h"

namespace ringwood {
namespace {

// Pauses of rank 0 between two looks for the ranks that are missing.
constexpr Duration kFirstPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(50);

constexpr const char* kIntroductions = "host";

std::string to_hex(std::span<const uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string fresh_number() { return to_hex(random_session()); }

std::string key_of(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }
std::string welcome_key(const std::string& number) { return "welcome/" + number; }

}  // namespace

Bootstrap::Bootstrap(std::shared_ptr<Store> store, int rank, int size, const Options& options)
    : root_(std::move(store)), options_(options), deadline_(Deadline::after(options.init_timeout)) {
  me_.rank = rank;
  me_.size = size;
  if (!options.key_file.empty()) me_.key = key_from_file(options.key_file);
}

void Bootstrap::enter() { store_ = prefix_store(root_, to_hex(me_.session) + "/"); }

std::vector<std::string> Bootstrap::meet(const Introduce& introduce, std::string& announcement) {
  std::string mine;
  if (me_.rank != 0) {
    await_welcome(announcement);
    mine = contribute(kIntroductions, [&] { return introduce(announcement); });
  } else {
    mine = introduce(announcement);
    me_.session = random_session();
    enter();
    contribute(kIntroductions, [&] { return mine; });
    welcome_all(announcement);
    store_->set("go", "", deadline_);
  }
  std::vector<std::string> all = collect(kIntroductions, mine);
  try {
    store_->get("go", deadline_);
  } catch (const Error& e) {
    if (e.code != ErrorCode::timeout) throw;
    throw missing({0});
  }
  return all;
}

// Returns when all ranks have written under the session. Their hellos are removed before any of
// them can go on, and so cannot be taken for those of the next group.
void Bootstrap::welcome_all(const std::string& announcement) {
  Welcome said{me_.session, std::nullopt, announcement};
  if (options_.key_file.empty()) said.key = me_.key = random_key();
  const std::string text = encode(said);
  std::set<int> expected;
  for (int r = 1; r < me_.size; ++r) expected.insert(r);
  for (Duration pause = kFirstPause; !expected.empty();) {
    bool moved = false;
    for (auto at = expected.begin(); at != expected.end();) {
      moved |= welcome(*at, text);
      const bool here =
          welcomed_.count(*at) > 0 && store_->has(key_of(kIntroductions, *at), deadline_);
      at = here ? expected.erase(at) : std::next(at);
      moved |= here;
    }
    if (expected.empty()) break;
    if (deadline_.passed()) throw missing({expected.begin(), expected.end()});
    pause = moved ? kFirstPause : std::min(2 * pause, kLongestPause);
    std::this_thread::sleep_for(std::min(pause, deadline_.left()));
  }
  for (const auto& [rank, number] : welcomed_) {
    root_->remove(key_of("hello", rank));
    root_->remove(welcome_key(number));
  }
  welcomed_.clear();
}

// True if there was a hello that had not been replied to.
bool Bootstrap::welcome(int rank, const std::string& text) {
  const std::string key = key_of("hello", rank);
  if (!root_->has(key, deadline_)) return false;
  const std::string number = root_->get(key, deadline_);
  std::string& last = welcomed_[rank];
  if (number == last) return false;
  if (!last.empty()) root_->remove(welcome_key(last));
  last = number;
  root_->set(welcome_key(number), text, deadline_);
  return true;
}

void Bootstrap::await_welcome(std::string& announcement) {
  const std::string number = fresh_number();
  root_->set(key_of("hello", me_.rank), number, deadline_);
  std::string text;
  try {
    text = root_->get(welcome_key(number), deadline_);
  } catch (const Error& e) {
    if (e.code != ErrorCode::timeout) throw;
    std::vector<int> absent = absent_from(*root_, "hello");
    absent.insert(absent.begin(), 0);
    throw missing(absent);
  }
  Welcome said;
  if (ByteReader(text).number<uint16_t>() != kProtocolVersion)
    throw Error(ErrorCode::unsupported,
                fmt::format("rank 0 speaks another version of the protocol than this rank, {}; "
                            "install the same release on all hosts",
                            kProtocolVersion));
  if (!decode(text, said)) throw Error(ErrorCode::internal, "the session in the store is damaged");
  if (said.key.has_value() != options_.key_file.empty())
    throw Error(
        ErrorCode::invalid_argument,
        "RINGWOOD_KEY_FILE is set on this rank or on rank 0 only: set it alike on all ranks");
  me_.session = said.session;
  if (said.key) me_.key = *said.key;
  announcement = said.announcement;
  enter();
}

std::vector<std::string> Bootstrap::exchange(const char* what, const Make& make) {
  return collect(what, contribute(what, make));
}

std::string Bootstrap::contribute(const char* what, const Make& make) {
  exchanged_.push_back(what);
  std::string mine;
  try {
    mine = make();
  } catch (Error& error) {
    if (error.rank < 0) error.rank = me_.rank;
    if (error.host.empty()) error.host = host_name();
    tell(what, error);
    throw;
  }
  store_->set(key_of(what, me_.rank), encode(Contribution{std::nullopt, mine}), deadline_);
  return mine;
}

// Of all ranks, by rank; `mine` was contributed.
std::vector<std::string> Bootstrap::collect(const char* what, const std::string& mine) {
  asking_ = what;
  std::vector<std::string> all(me_.size);
  for (int r = 0; r < me_.size; ++r) all[r] = r == me_.rank ? mine : await_value(what, r);
  asking_ = nullptr;
  return all;
}

std::string Bootstrap::await_value(const char* what, int rank) {
  Contribution theirs;
  try {
    if (!decode(store_->get(key_of(what, rank), deadline_), theirs))
      throw Error(ErrorCode::internal,
                  fmt::format("what rank {} has written in the store is damaged", rank));
  } catch (const Error& e) {
    if (e.code != ErrorCode::timeout) throw;
    std::vector<int> absent = absent_from(*store_, what);
    if (me_.rank != 0 && !store_->has(key_of(what, 0), deadline_)) absent.insert(absent.begin(), 0);
    throw missing(absent);
  }
  if (!theirs.reason) return theirs.value;
  reason_.emplace(theirs.reason->code, theirs.reason->cause);
  const int whose = theirs.reason->rank;  // anybody's bytes
  reason_->rank = whose >= 0 && whose < me_.size ? whose : rank;
  reason_->host = theirs.reason->host;
  throw Error(*reason_);
}

// Writes the error in place of this rank's value. The key stays, as others may yet read it. If the
// store cannot be reached now, they find out by themselves.
void Bootstrap::tell(const char* what, const Error& error) try {
  const Reason reason{error.code, error.rank, error.host, error.cause};
  store_->set(key_of(what, me_.rank), encode(Contribution{reason, ""}),
              Deadline::after(Duration::zero()));
} catch (const Error&) {
}

void Bootstrap::remove_keys() {
  if (me_.rank != 0) return;
  for (const char* what : exchanged_)
    for (int r = 0; r < me_.size; ++r) store_->remove(key_of(what, r));
  store_->remove("go");
}

void Bootstrap::give_up() noexcept {
  try {
    if (me_.rank != 0) root_->remove(key_of("hello", me_.rank));
    for (const auto& [rank, number] : welcomed_) root_->remove(welcome_key(number));
    // The values of a completed exchange stay: other ranks may still be reading them.
    if (asking_ == nullptr) return;
    if (reason_) {
      tell(asking_, *reason_);
    } else {
      store_->remove(key_of(asking_, me_.rank));
    }
  } catch (const std::exception&) {
  }
}

std::vector<int> Bootstrap::absent_from(Store& store, const char* what) const {
  std::vector<int> absent;
  for (int r = 1; r < me_.size; ++r)
    if (r != me_.rank && !store.has(key_of(what, r), deadline_)) absent.push_back(r);
  return absent;
}

Error Bootstrap::missing(const std::vector<int>& absent) const {
  Error e(ErrorCode::timeout,
          fmt::format("{} of {} ranks did not come within {:.1f} s: missing rank{} {}; is the "
                      "world size right, and do all run and reach the same store?",
                      absent.size(), me_.size, seconds_in(options_.init_timeout),
                      absent.size() == 1 ? "" : "s", fmt::join(absent, ", ")));
  e.rank = me_.rank;
  e.host = host_name();
  if (!absent.empty()) e.peer = absent.front();
  return e;
}

}  // namespace ringwood
