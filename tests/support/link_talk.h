// Random traffic over links, checked byte by byte.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory_resource>
#include <optional>
#include <stdexcept>

#include "tests/support/link_ranks.h"

namespace ringwood {

// Where messages lie, in the sender's memory and, unless they are shown, in the receiver's.
using Memory = std::pmr::memory_resource;

// Both directions of one link of one rank, driven at random: what is posted, when, how much, how
// received.
class Talk {
 public:
  Talk(Rank& rank, int peer, int channel, uint64_t messages, size_t largest, Memory& memory)
      : memory_(memory),
        link_(*rank.links[channel][peer]),
        me_(rank.group.rank()),
        peer_(peer),
        channel_(channel),
        messages_(messages),
        largest_(largest),
        random_(static_cast<uint32_t>(me_ * 1000 + peer * 10 + channel)),
        out_(messages),
        in_(messages) {}

  bool done() const { return total_.sent == messages_ && total_.received == messages_; }

  // Posts, polls, consumes; false if nothing has moved.
  bool step() {
    const uint64_t before = total_.sent + total_.received + sends_ + receives_ + in_place_;
    for (uint32_t n = random_() % 4; n > 0 && sends_ < messages_ && sends_ - total_.sent < 20; --n)
      send();
    for (uint32_t n = random_() % 4;
         n > 0 && receives_ < messages_ && receives_ - total_.received < 20; --n) {
      receive();
    }
    poll();
    consume();
    return total_.sent + total_.received + sends_ + receives_ + in_place_ != before;
  }

  void poll() {
    Completions now = total_;
    const Status status = link_.poll(now);
    if (!status) throw status.error();
    if (now.sent < total_.sent || now.sent > sends_ || now.received < total_.received ||
        now.received > receives_) {
      throw std::runtime_error("impossible completions");
    }
    for (; total_.sent < now.sent; ++total_.sent) out_[total_.sent].reset();
    for (; total_.received < now.received; ++total_.received) check(total_.received);
  }

 private:
  using Data = std::pmr::vector<std::byte>;
  struct Incoming {
    std::optional<Data> data;  // none: finished
    bool shown = false;
  };

  // Both ends draw the same sizes: few bytes often, megabytes seldom.
  size_t size(int from, int to, uint64_t k) const {
    std::mt19937_64 draw(uint64_t(from) << 40 | uint64_t(to) << 20 | uint64_t(channel_) << 16 | k);
    const double exponent = std::uniform_real_distribution<>(0, std::log2(double(largest_)))(draw);
    return k % 7 == 3 ? 1 + draw() % 64
                      : std::max<size_t>(1, static_cast<size_t>(std::exp2(exponent)));
  }

  void send() {
    const Data& data = out_[sends_].emplace(size(me_, peer_, sends_), &memory_);
    Pattern(me_, peer_, channel_, sends_).fill(*out_[sends_]);
    if (Status s = link_.post_send(data.data(), data.size()); !s) throw s.error();
    ++sends_;
  }

  void receive() {
    Incoming& in = in_[receives_];
    Data& data = in.data.emplace(size(peer_, me_, receives_), &memory_);
    in.shown = random_() % 2 == 0;
    Status s =
        in.shown ? link_.post_incoming(data.size()) : link_.post_recv(data.data(), data.size());
    if (!s) throw s.error();
    ++receives_;
  }

  // Mostly whole pieces, sometimes a part; at most one message per step.
  void consume() {
    const std::span<const std::byte> piece = link_.incoming();
    if (piece.empty()) return;
    while (first_in_place_ < receives_ &&
           (!in_[first_in_place_].shown || !in_[first_in_place_].data))
      ++first_in_place_;
    Data& data = in_.at(first_in_place_).data.value();
    if (piece.size() > data.size() - offset_)
      throw std::runtime_error("shown more than the message has");
    const bool last = piece.size() == data.size() - offset_;
    if (!last && (offset_ + piece.size()) % 16 != 0) throw std::runtime_error("an element was cut");
    const size_t bytes = random_() % 4 == 0 ? 1 + random_() % piece.size() : piece.size();
    std::memcpy(data.data() + offset_, piece.data(), bytes);
    link_.consume(bytes);
    in_place_ += bytes;
    offset_ += bytes;
    if (offset_ == data.size()) {
      offset_ = 0;
      ++first_in_place_;
    }
  }

  void check(uint64_t k) {
    Incoming& in = in_[k];
    const Data& data = in.data.value();
    const size_t same = Pattern(peer_, me_, channel_, k).compare(data.data(), data.size());
    if (same != data.size()) {
      throw std::runtime_error(
          fmt::format("message {} of {} bytes from {} differs at {}", k, data.size(), peer_, same));
    }
    if (in.shown && first_in_place_ <= k && !(first_in_place_ == k && offset_ == 0)) {
      throw std::runtime_error("finished before it was consumed");
    }
    in.data.reset();
  }

  Memory& memory_;
  Link& link_;
  const int me_, peer_, channel_;
  const uint64_t messages_;
  const size_t largest_;
  std::mt19937 random_;
  std::vector<std::optional<Data>> out_;
  std::vector<Incoming> in_;
  Completions total_;
  uint64_t sends_ = 0, receives_ = 0, in_place_ = 0, first_in_place_ = 0;
  size_t offset_ = 0;
};

// All links of a rank at once, sleeping whenever nothing moves.
inline void talk_to_all(Rank& rank, uint64_t messages, size_t largest,
                        Memory& memory = *std::pmr::new_delete_resource()) {
  std::vector<std::unique_ptr<Talk>> talks;
  for (size_t channel = 0; channel < rank.links.size(); ++channel) {
    for (size_t peer = 0; peer < rank.links[channel].size(); ++peer) {
      if (!rank.links[channel][peer]) continue;
      talks.push_back(
          std::make_unique<Talk>(rank, int(peer), int(channel), messages, largest, memory));
    }
  }
  const auto all_done = [&] {
    return std::all_of(talks.begin(), talks.end(), [](auto& t) { return t->done(); });
  };
  int idle = 0;
  while (!all_done()) {
    bool moved = false;
    for (auto& talk : talks) moved |= talk->step();
    idle = moved ? 0 : idle + 1;
    if (idle < 20) continue;
    const auto quiet = [&] {
      bool still = false;
      for (auto& talk : talks) still |= talk->step();
      return !still && !all_done();
    };
    if (!rank.sleep(quiet)) throw std::runtime_error("nothing rang");
  }
}

}  // namespace ringwood
