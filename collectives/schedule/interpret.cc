#include "collectives/schedule/interpret.h"

#include <fmt/format.h>

namespace ringwood {
namespace {

struct End {
  int32_t from, to;
  int32_t step;
  bool operator<(const End& other) const {
    return std::pair(from, to) < std::pair(other.from, other.to);
  }
};

// Stable, by a rank: counted, not compared.
std::vector<End> sorted(const std::vector<End>& ends, size_t ranks, int32_t End::*key) {
  std::vector<size_t> place(ranks + 1, 0);
  for (const End& end : ends) ++place[end.*key + 1];
  for (size_t r = 0; r < ranks; ++r) place[r + 1] += place[r];
  std::vector<End> result(ends.size());
  for (const End& end : ends) result[place[end.*key]++] = end;
  return result;
}

}  // namespace

std::string step_words(const std::vector<Schedule>& all, int rank, int step) {
  return fmt::format("rank {} step {} ({})", rank, step, print(all[rank].steps[step]));
}

Messages pair_messages(const std::vector<Schedule>& all) {
  Messages result;
  std::vector<End> sends, recvs;
  result.first.push_back(0);
  for (const Schedule& schedule : all) {
    int32_t number = result.first.back();
    for (const Step& step : schedule.steps) {
      if (step.kind == StepKind::send) {
        sends.push_back({schedule.rank, step.peer, number});
      } else if (step.peer >= 0) {
        recvs.push_back({step.peer, schedule.rank, number});
      }
      ++number;
    }
    result.first.push_back(number);
  }
  result.mate.assign(result.first.back(), -1);
  // By (from, to): sends are by `from` already, receives by `to`.
  sends = sorted(sorted(sends, all.size(), &End::to), all.size(), &End::from);
  recvs = sorted(recvs, all.size(), &End::from);

  result.messages.reserve(sends.size());
  for (size_t i = 0; i < std::max(sends.size(), recvs.size()); ++i) {
    const bool lonely_send = i >= recvs.size() || (i < sends.size() && sends[i] < recvs[i]);
    const bool lonely_recv = i >= sends.size() || (i < recvs.size() && recvs[i] < sends[i]);
    if (lonely_send) {
      const auto [from, to, step] = sends[i];
      result.flaw = fmt::format("{} has no receive at rank {}",
                                step_words(all, from, step - result.first[from]), to);
      return result;
    }
    if (lonely_recv) {
      const auto [from, to, step] = recvs[i];
      result.flaw = fmt::format("{} has no send at rank {}",
                                step_words(all, to, step - result.first[to]), from);
      return result;
    }
    const int32_t send = sends[i].step, recv = recvs[i].step;
    result.messages.push_back({sends[i].from, sends[i].to, send, recv});
    result.mate[send] = recv;
    result.mate[recv] = send;
  }
  return result;
}

}  // namespace ringwood
