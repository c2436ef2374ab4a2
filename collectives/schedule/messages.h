// Which send meets which receive: the k-th send a -> b and the k-th receive at b from a.
//
// A link is a pair (from, to). What is stored is by link, and by step of each distinct list
// (group_schedules.h), not by message: 8 bytes for each link, 8 for each step of a list, 4 for each
// end of its links.
//
// Precondition: ranks and peers are in range. Linear in the number of steps, but for the sorting of
// each rank's links. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/schedule/group_schedules.h"

namespace ringwood {

// "rank 3 step 2 (send 1 [0])"
std::string step_words(GroupSchedules all, int rank, int step);

class Messages {
 public:
  struct Message {
    int32_t send;  // a step of the sender
    int32_t to, recv;
  };
  static constexpr int32_t kNone = -1;

  explicit Messages(GroupSchedules all);

  // The first by (from, to), then in link order: a send without its receive, or a receive without
  // its send.
  std::optional<std::string> flaw;

  // Steps of all ranks have consecutive numbers: step i of rank r is first_step(r) + i.
  int32_t first_step(int rank) const { return first_step_[rank]; }
  int32_t steps() const { return first_step_.back(); }

  // Links are numbered from 0 on, by sender.
  int32_t links() const { return first_send_.back(); }
  // The link of a step that sends or receives; kNone: it has no sender.
  int32_t link(int rank, int32_t step) const {
    const int32_t number = lists_[all_.list(rank)].steps[step].link;
    return number >= 0 ? first_send_[rank] + number : sender_[first_recv_[rank] + ~number];
  }
  // The next step of the same rank, link and direction, or kNone.
  int32_t next(int rank, int32_t step) const { return lists_[all_.list(rank)].steps[step].next; }
  // For each step of the rank: it is the first of its link and direction, or local.
  std::vector<bool> first_on_links(int rank) const;

  // Those that have both ends, by receiver, then in link order.
  std::vector<Message> from(int rank) const;
  // The message's other end, a step of the step's peer; kNone: local, or no mate. Linear in the
  // number of messages of the link.
  int32_t mate(int rank, int32_t step) const;

 private:
  // Of a list: what link() and next() are made of. A send's link is a number in `sends`, k, and a
  // receive's one in `recvs`, as ~k.
  struct Place {
    int32_t link = 0, next = kNone;
  };
  struct List {
    std::vector<Place> steps;
    std::vector<int32_t> sends, recvs;  // the first step of each link
  };

  List list_of(const ScheduleView& schedule, std::vector<int32_t>& send_of,
               std::vector<int32_t>& recv_of) const;
  // Numbers of the rank's links of one direction, by peer.
  std::vector<int32_t> by_peer(int rank, const std::vector<int32_t>& first_steps) const;
  // Of the link whose first step this is.
  int32_t steps_from(int rank, int32_t step) const;
  bool join();
  std::string find_flaw() const;

  GroupSchedules all_;
  std::vector<List> lists_;
  std::vector<int32_t> first_step_, first_send_, first_recv_;  // by rank, followed by all
  std::vector<int32_t> sender_;    // by receiving link: the link's number, or kNone
  std::vector<int32_t> receiver_;  // by link: the first step of its receives, or kNone
};

inline Messages pair_messages(GroupSchedules all) { return Messages(all); }

}  // namespace ringwood
