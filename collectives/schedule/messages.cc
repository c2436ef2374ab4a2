#include "collectives/schedule/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace ringwood {
namespace {

// Both ends of a link, or one.
struct Link {
  int32_t from, to;
  int32_t sends, recvs;  // how many
};

}  // namespace

std::string step_words(GroupSchedules all, int rank, int step) {
  return fmt::format("rank {} step {} ({})", rank, step, print(all[rank].step(step)));
}

Messages::Messages(GroupSchedules all) : all_(all), first_step_{0}, first_send_{0}, first_recv_{0} {
  std::vector<int32_t> send_of(all.size(), kNone), recv_of(all.size(), kNone);
  lists_.reserve(all.lists());
  for (int list = 0; list < all.lists(); ++list)
    lists_.push_back(list_of(all[all.first_of(list)], send_of, recv_of));
  for (int rank = 0; rank < all.size(); ++rank) {
    const List& list = lists_[all.list(rank)];
    first_step_.push_back(first_step_.back() + static_cast<int32_t>(list.steps.size()));
    first_send_.push_back(first_send_.back() + static_cast<int32_t>(list.sends.size()));
    first_recv_.push_back(first_recv_.back() + static_cast<int32_t>(list.recvs.size()));
  }
  sender_.assign(first_recv_.back(), kNone);
  receiver_.assign(first_send_.back(), kNone);
  if (!join()) flaw = find_flaw();
}

// `send_of`, `recv_of`: by peer, kNone before and after.
Messages::List Messages::list_of(const ScheduleView& schedule, std::vector<int32_t>& send_of,
                                 std::vector<int32_t>& recv_of) const {
  List list;
  list.steps.resize(schedule.size());
  std::vector<int32_t> last_send, last_recv;  // by link
  const auto add = [&](int32_t& link, std::vector<int32_t>& first, std::vector<int32_t>& last,
                       int32_t i) {
    if (link == kNone) {
      link = static_cast<int32_t>(first.size());
      first.push_back(i);
      last.push_back(i);
    } else {
      list.steps[std::exchange(last[link], i)].next = i;
    }
    return link;
  };
  for (int32_t i = 0; i < schedule.size(); ++i) {
    const Step step = schedule.step(i);
    if (step.kind == StepKind::send)
      list.steps[i].link = add(send_of[step.peer], list.sends, last_send, i);
    else if (step.peer >= 0)
      list.steps[i].link = ~add(recv_of[step.peer], list.recvs, last_recv, i);
  }
  for (const int32_t first : list.sends) send_of[schedule.step(first).peer] = kNone;
  for (const int32_t first : list.recvs) recv_of[schedule.step(first).peer] = kNone;
  list.sends.shrink_to_fit();
  list.recvs.shrink_to_fit();
  return list;
}

int32_t Messages::steps_from(int rank, int32_t step) const {
  int32_t count = 0;
  for (; step != kNone; step = next(rank, step)) ++count;
  return count;
}

std::vector<int32_t> Messages::by_peer(int rank, const std::vector<int32_t>& first_steps) const {
  const ScheduleView schedule = all_[rank];
  std::vector<std::pair<int32_t, int32_t>> links;  // peer, number
  links.reserve(first_steps.size());
  for (const int32_t first : first_steps)
    links.emplace_back(schedule.step(first).peer, static_cast<int32_t>(links.size()));
  std::sort(links.begin(), links.end());
  std::vector<int32_t> result;
  result.reserve(links.size());
  for (const auto& link : links) result.push_back(link.second);
  return result;
}

// Senders in order meet each receiver's links in order. False: not all match.
bool Messages::join() {
  bool all_match = true;
  std::vector<std::vector<int32_t>> recvs(all_.size());  // by receiver: its links, by sender
  for (int rank = 0; rank < all_.size(); ++rank)
    recvs[rank] = by_peer(rank, lists_[all_.list(rank)].recvs);
  std::vector<size_t> at(all_.size(), 0);  // in those
  for (int from = 0; from < all_.size(); ++from) {
    const List& mine = lists_[all_.list(from)];
    for (size_t k = 0; k < mine.sends.size(); ++k) {
      const int to = all_[from].step(mine.sends[k]).peer;
      const List& its = lists_[all_.list(to)];
      const auto sender = [&] { return all_[to].step(its.recvs[recvs[to][at[to]]]).peer; };
      while (at[to] < recvs[to].size() && sender() < from) ++at[to];
      if (at[to] == recvs[to].size() || sender() != from) {
        all_match = false;
        continue;
      }
      const int32_t recv = recvs[to][at[to]++];
      const int32_t link = first_send_[from] + static_cast<int32_t>(k);
      sender_[first_recv_[to] + recv] = link;
      receiver_[link] = its.recvs[recv];
      all_match = all_match && steps_from(from, mine.sends[k]) == steps_from(to, its.recvs[recv]);
    }
  }
  return all_match && std::find(sender_.begin(), sender_.end(), kNone) == sender_.end();
}

std::string Messages::find_flaw() const {
  std::vector<Link> ends;
  for (int rank = 0; rank < all_.size(); ++rank) {
    const List& list = lists_[all_.list(rank)];
    for (const int32_t first : list.sends)
      ends.push_back({rank, all_[rank].step(first).peer, steps_from(rank, first), 0});
    for (const int32_t first : list.recvs)
      ends.push_back({all_[rank].step(first).peer, rank, 0, steps_from(rank, first)});
  }
  std::sort(ends.begin(), ends.end(), [](const Link& a, const Link& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  // The step after the first `count` of its link.
  const auto beyond = [&](int rank, int peer, bool sends, int32_t count) {
    for (int32_t i = 0;; ++i) {
      const Step step = all_[rank].step(i);
      if ((step.kind == StepKind::send) == sends && step.peer == peer && count-- == 0)
        return step_words(all_, rank, i);
    }
  };
  for (size_t i = 0; i < ends.size(); ++i) {
    auto [from, to, sends, recvs] = ends[i];
    for (; i + 1 < ends.size() && ends[i + 1].from == from && ends[i + 1].to == to; ++i) {
      sends += ends[i + 1].sends;
      recvs += ends[i + 1].recvs;
    }
    if (sends > recvs)
      return fmt::format("{} has no receive at rank {}", beyond(from, to, true, recvs), to);
    if (recvs > sends)
      return fmt::format("{} has no send at rank {}", beyond(to, from, false, sends), from);
  }
  return "";  // unreachable: some link does not match
}

std::vector<bool> Messages::first_on_links(int rank) const {
  const List& list = lists_[all_.list(rank)];
  std::vector<bool> result(list.steps.size(), true);
  for (const Place& place : list.steps)
    if (place.next != kNone) result[place.next] = false;
  return result;
}

std::vector<Messages::Message> Messages::from(int rank) const {
  const List& list = lists_[all_.list(rank)];
  std::vector<Message> result;
  for (const int32_t k : by_peer(rank, list.sends)) {
    const int to = all_[rank].step(list.sends[k]).peer;
    int32_t recv = receiver_[first_send_[rank] + k];
    for (int32_t send = list.sends[k]; send != kNone && recv != kNone; send = next(rank, send)) {
      result.push_back({send, to, recv});
      recv = next(to, recv);
    }
  }
  return result;
}

int32_t Messages::mate(int rank, int32_t step) const {
  const int peer = all_[rank].step(step).peer;
  if (peer < 0) return kNone;
  const List &mine = lists_[all_.list(rank)], &its = lists_[all_.list(peer)];
  const int32_t link = this->link(rank, step), number = mine.steps[step].link;
  if (link == kNone) return kNone;
  const bool sends = number >= 0;
  int32_t at = sends ? mine.sends[number] : mine.recvs[~number];
  int32_t mate = sends ? receiver_[link] : its.sends[link - first_send_[peer]];
  for (; at != step && mate != kNone; at = next(rank, at)) mate = next(peer, mate);
  return mate;
}

}  // namespace ringwood
