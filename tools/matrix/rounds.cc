#include "tools/matrix/rounds.h"

#include <algorithm>

namespace ringwood::tools {
namespace {

constexpr Span kChunk{0, 1};
// Of the longest transfer.
constexpr int kPieces = 16;

std::vector<Schedule> broadcast(int ranks) {
  std::vector<Schedule> all(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    Schedule& mine = all[static_cast<size_t>(r)];
    mine.rank = r;
    mine.n = ranks;
    mine.chunks = 1;
    if (r > 0) mine.recv(0, kChunk);
    for (int to = 1; r == 0 && to < ranks; ++to) mine.send(to, kChunk);
  }
  return all;
}

Span add_scratch(Schedule& schedule, int chunks) {
  const int first = schedule.add_scratch(0);
  for (int i = 1; i < chunks; ++i) schedule.add_scratch(0);
  return {first, chunks};
}

// So many copies of the chunk, each step twice as many as the last one.
void fill(Schedule& schedule, Span scratch) {
  schedule.copy({scratch.first, 1}, kChunk);
  for (int done = 1; done < scratch.count;) {
    const int more = std::min(done, scratch.count - done);
    schedule.copy({scratch.first + done, more}, {scratch.first, more});
    done += more;
  }
}

}  // namespace

std::vector<std::vector<std::pair<int, int>>> tournament(int n) {
  std::vector<std::vector<std::pair<int, int>>> rounds;
  const int even = n + n % 2;  // the last one of an odd number rests
  for (int round = 0; round + 1 < even; ++round) {
    auto& pairs = rounds.emplace_back();
    // The last one stays in its place, the others move around the circle.
    const auto at = [&](int place) { return (place + round) % (even - 1); };
    if (even == n) pairs.emplace_back(std::minmax(at(0), n - 1));
    for (int place = 1; place < even / 2; ++place)
      pairs.emplace_back(std::minmax(at(place), at(even - 1 - place)));
  }
  return rounds;
}

std::shared_ptr<const ProvedSchedules> transfer_round(int ranks, const std::vector<Flow>& flows,
                                                      int copies, int most) {
  std::vector<Schedule> all = broadcast(ranks);
  std::vector<Span> sources(all.size());
  const int piece = most / kPieces;
  for (const Flow& flow : flows) {
    Span& source = sources[static_cast<size_t>(flow.from)];
    if (source.first > 0) continue;
    source = add_scratch(all[static_cast<size_t>(flow.from)], piece);
    fill(all[static_cast<size_t>(flow.from)], source);
  }
  for (const Flow& flow : flows) {
    Schedule& to = all[static_cast<size_t>(flow.to)];
    const Span place = add_scratch(to, most);
    for (int done = 0; done < copies; done += piece) {
      all[static_cast<size_t>(flow.from)].send(flow.to, sources[static_cast<size_t>(flow.from)]);
      to.recv(flow.from, {place.first + done, piece});
    }
  }
  return ProvedSchedules::create(Collective::broadcast, std::move(all));
}

// One place at each end, written and read in turns, keeps the round trips apart.
std::shared_ptr<const ProvedSchedules> ping_round(int ranks, const std::vector<Flow>& flows,
                                                  int times) {
  std::vector<Schedule> all = broadcast(ranks);
  for (const Flow& flow : flows) {
    Schedule& from = all[static_cast<size_t>(flow.from)];
    Schedule& to = all[static_cast<size_t>(flow.to)];
    const Span ping = add_scratch(from, 1), echo = add_scratch(to, 1);
    from.copy(ping, kChunk);
    for (int i = 0; i < times; ++i) {
      from.send(flow.to, ping);
      to.recv(flow.from, echo);
      to.send(flow.from, echo);
      from.recv(flow.to, ping);
    }
  }
  return ProvedSchedules::create(Collective::broadcast, std::move(all));
}

}  // namespace ringwood::tools
