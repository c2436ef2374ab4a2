#include "collectives/algorithms/butterfly.h"

namespace ringwood {
namespace {

// Chunk numbers in the order in which the butterfly spreads from rank 0: what a rank is responsible
// for after each round is then an aligned block of chunks.
std::vector<int> places(int n, PeerOf peer) {
  std::vector<int> order{0};
  int rounds = 0;
  while (1 << rounds < n) ++rounds;
  // The last rounds make neighbours, so the first round's choice is the highest bit.
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> next;
    for (int rank : order) {
      next.push_back(rank);
      next.push_back(peer(rank, round, n));
    }
    order = next;
  }
  std::vector<int> place(n);
  for (int i = 0; i < n; ++i) place[order[i]] = i;
  return place;
}

}  // namespace

void swap_all(Schedule& s, int n, PeerOf peer) {
  if (n == 1) return;
  // Used in turn, so that a receive is posted before the addition of the previous round is done.
  const int others[] = {s.add_scratch(0), s.add_scratch(0)};
  for (int round = 0; 1 << round < n; ++round) {
    const int to = peer(s.rank, round, n), other = others[round % 2];
    s.send(to, {0});
    s.recv(to, {other});
    s.reduce({0}, {other});
  }
}

void halve_and_double(Schedule& s, PeerOf peer) {
  const int n = s.n;
  const std::vector<int> place = places(n, peer);
  auto block = [](int at, int size) { return Span{at / size * size, size}; };
  int rounds = 0;
  for (; 1 << rounds < n; ++rounds) {
    const int to = peer(s.rank, rounds, n), size = n >> (rounds + 1);
    s.send(to, block(place[to], size));
    s.recv_reduce(to, block(place[s.rank], size));
  }
  while (rounds-- > 0) {
    const int to = peer(s.rank, rounds, n), size = n >> (rounds + 1);
    s.send(to, block(place[s.rank], size));
    s.recv(to, block(place[to], size));
  }
}

}  // namespace ringwood
