// Which unfinished handshakes an acceptor keeps, replies to and drops. It knows no sockets and
// reads no clock: it is told what has happened, from where and when, and says what is to be done.
//
//            came()            spoke()                next(): challenge            left()
//   (door) ---------> silent ----------> waiting ---------------------> challenged -------> in, or
//                                                  its reply is on its way           refused
//
//   1. There are at most `places` peers. While one is free, no newcomer costs anybody his.
//   2. A peer that is challenged is kept for kReplyTime, whatever comes: its reply may be on its
//      way. After that it is dropped if others wait, and after kHandshakeTime in any case.
//   3. So challenges are what is shared out. They have half of the places, so that the acceptor can
//      always look at who comes. A source may have as many as are left: one source alone gets half
//      of them and k sources 1 / (k + 1) each, and one is left for a source that comes later. Those
//      with fewest are next, and of a source the oldest. The others wait, in their places.
//   4. Without a free place, a newcomer takes that of a silent peer (of the source that has most,
//      the oldest); else that of one whose reply is late; else that of a waiting peer (of the
//      source that has most, the newest, but never a source's only one). His own source does not
//      matter: nobody knows it before he is accepted.
//
// A source is whatever cannot be had in numbers by who has one: an address, the network of an IPv6
// address, a process of this host.
//
// Not thread safe. Times never go back. O(log places) for each call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "transports/base/clock.h"

namespace ringwood {

class Admission final {
 public:
  // Longer than a round trip round the world and one lost packet on it.
  static constexpr Duration kReplyTime = std::chrono::seconds(1);
  // As long as a dialler waits (net.cc).
  static constexpr Duration kHandshakeTime = std::chrono::seconds(5);

  using Time = Clock::time_point;
  using Id = uint64_t;  // in the order of arrival, never used twice
  struct Action {
    enum class Kind { challenge, drop } kind;
    Id id;
    const char* why;  // of a drop
  };

  explicit Admission(size_t places);

  // ---- what has happened; the peer must be known ----
  Id came(const std::string& source, Time now);  // precondition: !full()
  void spoke(Id id);                             // it was silent, and its first message is complete
  void left(Id id);                              // it is in, refused or dropped: all the same here

  // ---- what is to be done ----
  // The next thing, until there is none. A challenge counts as sent. A drop is carried out by
  // left(), unless the peer turns out to have sent something meanwhile.
  std::optional<Action> next(Time now);
  bool full() const { return peers_.size() >= places_; }
  // Who is dropped for a newcomer; nobody: newcomers wait outside until `next_change`, or until
  // something else happens.
  std::optional<Action> in_the_way(Time now) const;
  // When time alone gives something to do; max() if nothing does.
  Time next_change(Time now) const;

 private:
  enum Stage : uint8_t { kSilent, kWaiting, kChallenged, kStages };
  using Place = std::pair<Time, Id>;  // since when it is in its stage (waiting: since it came), who
  using Places = std::array<std::set<Place>, kStages>;
  struct Source {
    std::string name;
    Id first;  // so that an order of sources is the same in every run
    Places peers;
  };
  using Sources = std::map<std::string, Source>;
  using Rank = std::tuple<size_t, Id, Source*>;
  struct Peer {
    Source* source;
    Stage stage;
    Time since;
  };

  void put(Source& source, Stage stage, Place place);
  void take(Source& source, Stage stage, Place place);
  void rank(Source& source);
  void unrank(Source& source);
  void move(Id id, Stage to, Time since);
  bool is_late(Time now) const;
  std::optional<Id> expired(Time now) const;
  std::optional<Id> next_to_challenge() const;

  const size_t places_, challenges_;
  std::map<Id, Peer> peers_;
  Sources sources_;  // that have peers
  Places all_;
  // Of the sources with peers in a stage: by how many, and those with waiting ones by how many
  // others of theirs are challenged.
  std::array<std::set<Rank>, kStages> most_;
  std::set<Rank> turns_;
  Id next_id_ = 0;
};

}  // namespace ringwood
