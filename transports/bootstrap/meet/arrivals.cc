#include "transports/bootstrap/meet/arrivals.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "transports/bootstrap/store_polls.h"

namespace ringwood {
namespace {

constexpr const char* kCount = "arrivals";
constexpr const char* kServed = "served";
// Before the last one: anybody can add to the list.
constexpr int64_t kMaxUnserved = 1 << 20;

std::string hello_key(int64_t number) { return "hello/" + std::to_string(number); }

}  // namespace

std::string Arrivals::reply_key(int64_t number) { return "welcome/" + std::to_string(number); }

int64_t Arrivals::add(const Hello& hello) {
  const int64_t number = store_->add(kCount, 1, deadline_);
  store_->set(hello_key(number), encode(hello), deadline_);
  return number;
}

Arrivals::Numbered Arrivals::unserved() {
  const int64_t last = store_->add(kCount, 0, deadline_);
  Numbered all;
  Hello hello;
  for (int64_t number = std::max(served(), last - kMaxUnserved) + 1; number <= last; ++number)
    if (read(number, hello)) all.emplace(number, hello);
  return all;
}

bool Arrivals::is_first(int64_t number) { return number == served() + 1; }

bool Arrivals::is_lost(int64_t number) { return store_->add(kCount, 0, deadline_) < number; }

void Arrivals::reply(int64_t number, const Welcome& welcome) {
  store_->set(reply_key(number), encode(welcome), deadline_);
}

void Arrivals::forget(int64_t number) {
  store_->remove(hello_key(number));
  store_->remove(reply_key(number));
}

Arrivals::Numbered Arrivals::fresh() {
  if (looked_at_ < 0) looked_at_ = served();
  const int64_t last = store_->add(kCount, 0, deadline_);
  looked_at_ = std::max(looked_at_, last - kMaxUnserved);
  while (looked_at_ < last) awaited_.insert(++looked_at_);
  Numbered all;
  Hello hello;
  for (auto at = awaited_.begin(); at != awaited_.end();) {
    const bool here = read(*at, hello);
    if (here) all.emplace(*at, hello);
    at = here ? awaited_.erase(at) : std::next(at);
  }
  return all;
}

void Arrivals::finish(const std::set<int64_t>& welcomed) {
  for (int64_t number = std::max(served(), looked_at_ - kMaxUnserved) + 1; number <= looked_at_;
       ++number) {
    store_->remove(hello_key(number));
    if (welcomed.count(number) > 0)
      store_->remove(reply_key(number));
    else
      refused_.insert(number);
  }
  store_->set(kServed, std::to_string(looked_at_), deadline_);
}

// `served` first: should this process end before the other, all numbers are looked at again.
void Arrivals::remove() {
  for (int64_t number : refused_) store_->remove(reply_key(number));
  if (looked_at_ < 0 || store_->add(kCount, 0, deadline_) != looked_at_) return;
  store_->remove(kServed);
  store_->remove(kCount);
}

int64_t Arrivals::served() {
  if (!store_->has(kServed, deadline_)) return 0;
  const std::string text = store_->get(kServed, deadline_);
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::max<int64_t>(number, 0);
}

// False: it has not said it yet, or it is forgotten.
bool Arrivals::read(int64_t number, Hello& hello) {
  const std::string key = hello_key(number);
  if (!store_->has(key, deadline_)) return false;
  const auto text = get_if_there(*store_, key, Deadline::after(Duration::zero()));
  if (!text) return false;  // forgotten just now
  if (!decode(*text, hello)) hello = Hello();
  return true;
}

}  // namespace ringwood
