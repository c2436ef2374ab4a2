#include "transports/bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <optional>
#include <utility>

#include "transports/base/host.h"
#include "transports/base/log.h"
#include "transports/bootstrap/meet/keys.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store_polls.h"

namespace ringwood {
namespace {

// From 1 on; the first is in key_of(what, 0).
std::string piece_key(const char* what, uint32_t piece) {
  return fmt::format("{}/all/{}", what, piece);
}

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
      remind_every_(remind_every),
      arrivals_(root_, deadline_) {
  me_.rank = rank;
  me_.size = size;
  me_.job = job_of(options, size);
  if (!options.key_file.empty()) me_.key = key_from_file(options.key_file);
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
  store_->set(key_of(what, me_.rank), encode(Contribution{std::nullopt, mine, own_process()}),
              deadline_);
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
  std::optional<std::string> text;
  while (!(text = get_if_there(*store_, key_of(what, rank), next_reminder()))) {
    if (deadline_.passed()) {
      const std::vector<int> others = absent();
      throw missing(others.empty() ? std::vector{rank} : others);
    }
    remind([&] { return me_.rank == 0 ? absent() : std::vector<int>{}; });
  }
  Contribution theirs;
  if (!decode(*text, theirs)) throw damaged(rank);
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
  store_->remove(kTwice);
  arrivals_.remove();
}

// The reason that rank 0 gave, and the values of a completed exchange, stay: other ranks may still
// be reading them.
void Bootstrap::give_up() noexcept {
  try {
    if (number_ > 0) arrivals_.forget(number_);
    for (int64_t number : welcomed_) arrivals_.forget(number);
    if (asking_ != nullptr) store_->remove(key_of(asking_, me_.rank));
  } catch (const std::exception&) {
  }
}

Deadline Bootstrap::next_reminder() const {
  return deadline_.within(reminded_ + remind_every_ - Clock::now());
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

// Before it is known which ranks go on.
std::vector<int> Bootstrap::absent_with_root() {
  std::set<int> here = {me_.rank};
  for (const auto& [number, hello] : arrivals_.unserved())
    if (is_of_this_job(hello)) here.insert(hello.rank);
  std::vector<int> absent = {0};
  for (int r = 1; r < me_.size; ++r)
    if (here.count(r) == 0) absent.push_back(r);
  return absent;
}

Error Bootstrap::missing(const std::vector<int>& absent) const {
  Error e(ErrorCode::timeout,
          fmt::format("{} of {} ranks did not come within {:.1f} s: missing {}; is the world size "
                      "right, and do all run and reach the same store?",
                      absent.size(), me_.size, seconds_in(options_.init_timeout), text_of(absent)));
  if (!last_refused_.empty()) e.cause += "; last refused: " + last_refused_;
  e.rank = me_.rank;
  e.host = host_name();
  if (!absent.empty()) e.peer = absent.front();
  return e;
}

}  // namespace ringwood
