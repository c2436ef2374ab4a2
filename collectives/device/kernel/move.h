// A pass: many sources to many destinations, elementwise, by all threads of a block.
//
// Through memory: 16 bytes at a time where all addresses agree modulo 16, the rest, and sums in
// wide scratch, element by element. Or through packets, each of which carries its own flag. The
// addresses are in BlockMemory. See interpret.h for M.
#pragma once

#include "collectives/device/kernel/folds.h"
#include "collectives/device/kernel/stop.h"

namespace ringwood::device {

// Of a block.
struct BlockMemory {
  char* at[kMaxPassOperands];      // of the pass at hand, destinations first
  double scale[kMaxPassOperands];  // of own operands
  char* base[kMaxRanks][kSharedSpaces];
  double factor[kMaxRanks];
};

struct alignas(16) Vector {
  uint32_t x[4];
};

RINGWOOD_DEVICE Finish finish_of(const Word& w, const Launch& a) {
  return {(w.flags & kFinish) != 0, a.divisor, a.scale};
}

// Of the whole interpreter's state what a pass needs; lives in registers.
template <class N, Fold kFold, class M>
struct Mover {
  using Stored = typename N::Stored;
  using State = FoldState<N, kFold>;
  static constexpr int kSize = sizeof(Stored);
  static constexpr int kInVector = 16 / int(sizeof(typename N::InVector));

  M& m;
  BlockMemory& s;
  const Launch& a;
  const Word& w;
  const int segment;
  const uint64_t v;

  // False: stopped while it waited for a packet.
  RINGWOOD_DEVICE bool move() {
    const bool copies = w.srcs == 1 && !(w.flags & kWide);
    if (w.flags & kPacked) return copies ? move_packets<true>() : move_packets<false>();
    if (copies)
      move_memory<true>();
    else
      move_memory<false>();
    return true;
  }

 private:
  union Pack {
    Vector vector;
    typename N::InVector number[kInVector];
    RINGWOOD_DEVICE Pack() {}
  };

  RINGWOOD_DEVICE double scale(int k) const { return s.scale[w.dsts + k]; }

  // ---- memory ----------------------------------------------------------------------------------

  template <bool kCopy>
  RINGWOOD_DEVICE void move_memory() {
    const uintptr_t odd = reinterpret_cast<uintptr_t>(s.at[0]) % 16;
    bool alike = odd % kSize == 0 && !(w.flags & kWide);
    for (int k = 1; k < w.dsts + w.srcs; ++k)
      alike &= reinterpret_cast<uintptr_t>(s.at[k]) % 16 == odd;
    const uint64_t elements = w.bytes / kSize;
    uint64_t head = odd == 0 ? 0 : (16 - odd) / kSize;
    if (head > elements || !alike) head = elements;
    const uint64_t vectors = (elements - head) / (16 / kSize);
    // So many that their sums fit in registers.
    constexpr int kWords = kInVector * ((int(sizeof(State)) + 3) / 4);
    // Sums are what is common; narrow integers need registers to be taken apart, too.
    constexpr bool kNarrow = !N::kFloating && kSize == 2;
    constexpr int kMost = kFold == Fold::sum && int(sizeof(State)) <= 4 ? 32 : kNarrow ? 8 : 16;
    constexpr int kAtOnce = kCopy || kMost >= 4 * kWords ? 4 : kMost >= 2 * kWords ? 2 : 1;
    const uint64_t step = uint64_t(m.threads());
    for (uint64_t i = uint64_t(m.thread()); i < vectors; i += kAtOnce * step)
      move_vectors<kCopy, kAtOnce>(head * kSize, i, step, vectors);
    move_elements<kCopy>(head, head + vectors * (16 / kSize), elements);
  }

  // The machine's threads take vectors in turn; the last turn has fewer.
  template <int kAtOnce>
  RINGWOOD_DEVICE void load_vectors(Pack (&x)[kAtOnce], const char* from, uint64_t i, uint64_t step,
                                    uint64_t end) {
    RINGWOOD_UNROLL
    for (int u = 0; u < kAtOnce; ++u) {
      const uint64_t at = i + uint64_t(u) * step;
      if (at < end) x[u].vector = m.load(reinterpret_cast<const Vector*>(from) + at);
    }
  }

  template <bool kCopy, int kAtOnce>
  RINGWOOD_DEVICE void move_vectors(uint64_t begin, uint64_t i, uint64_t step, uint64_t end) {
    Pack x[kAtOnce];
    load_vectors<kAtOnce>(x, s.at[w.dsts] + begin, i, step, end);
    if constexpr (!kCopy) {
      State sum[kAtOnce][kInVector];
      RINGWOOD_UNROLL
      for (int u = 0; u < kAtOnce; ++u) RINGWOOD_UNROLL
      for (int e = 0; e < kInVector; ++e) sum[u][e].first(N::wide(m, x[u].number[e]), of_first());
      for (int k = 1; k < w.srcs; ++k) {
        load_vectors<kAtOnce>(x, s.at[w.dsts + k] + begin, i, step, end);
        const double factor = scale(k);
        RINGWOOD_UNROLL
        for (int u = 0; u < kAtOnce; ++u) RINGWOOD_UNROLL
        for (int e = 0; e < kInVector; ++e) sum[u][e].next(N::wide(m, x[u].number[e]), factor);
      }
      const Finish how = finish_of(w, a);
      RINGWOOD_UNROLL
      for (int u = 0; u < kAtOnce; ++u) RINGWOOD_UNROLL
      for (int e = 0; e < kInVector; ++e) x[u].number[e] = N::stored(m, sum[u][e].last(how));
    }
    for (int k = 0; k < w.dsts; ++k) {
      RINGWOOD_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        const uint64_t at = i + uint64_t(u) * step;
        if (at < end) m.store(reinterpret_cast<Vector*>(s.at[k] + begin) + at, x[u].vector);
      }
    }
  }
  // A mean has one scale for all.
  RINGWOOD_DEVICE double of_first() const { return kFold == Fold::mean ? a.scale : scale(0); }

  // Those before `head` and from `tail` on.
  template <bool kCopy>
  RINGWOOD_DEVICE void move_elements(uint64_t head, uint64_t tail, uint64_t end) {
    const uint64_t rest = head + end - tail;
    for (uint64_t i = uint64_t(m.thread()); i < rest; i += uint64_t(m.threads())) {
      const uint64_t e = i < head ? i : tail + (i - head);
      if constexpr (kCopy) {
        const Stored x = m.load(reinterpret_cast<const Stored*>(s.at[w.dsts]) + e);
        for (int k = 0; k < w.dsts; ++k) m.store(reinterpret_cast<Stored*>(s.at[k]) + e, x);
      } else {
        State sum;
        sum.first(number(w.dsts, e), of_first());
        for (int k = 1; k < w.srcs; ++k) sum.next(number(w.dsts + k, e), scale(k));
        store_number(e, sum.last(finish_of(w, a)));
      }
    }
  }
  // Only a small float's sum is kept elsewhere than in its type.
  RINGWOOD_DEVICE bool is_wide(int k) const {
    return N::kSmall && (w.flags & kWide) &&
           a.operands[w.operand + uint32_t(k)].space == Space::wide;
  }
  RINGWOOD_DEVICE typename N::Wide number(int k, uint64_t e) {
    if (is_wide(k)) return typename N::Wide(m.load(reinterpret_cast<const float*>(s.at[k]) + e));
    return N::wide(m, m.load(reinterpret_cast<const Stored*>(s.at[k]) + e));
  }
  RINGWOOD_DEVICE void store_number(uint64_t e, typename N::Wide x) {
    const Stored rounded = N::stored(m, x);
    for (int k = 0; k < w.dsts; ++k) {
      if (is_wide(k))
        m.store(reinterpret_cast<float*>(s.at[k]) + e, float(x));
      else
        m.store(reinterpret_cast<Stored*>(s.at[k]) + e, rounded);
    }
  }

  // ---- packets ---------------------------------------------------------------------------------

  // What is handled together: whole packets and whole elements.
  static constexpr int kPackets = kSize < 4 ? 1 : kSize / 4, kNumbers = kPackets * 4 / kSize;
  union Item {
    uint32_t packet[kPackets];
    Stored number[kNumbers];
    RINGWOOD_DEVICE Item() {}
  };

  template <bool kCopy>
  RINGWOOD_DEVICE bool move_packets() {
    const uint64_t elements = w.bytes / kSize;
    for (uint64_t i = uint64_t(m.thread()); i * kNumbers < elements; i += uint64_t(m.threads())) {
      const uint64_t left = elements - i * kNumbers;
      const int numbers = left < kNumbers ? int(left) : kNumbers;
      Item x;
      if constexpr (kCopy) {
        if (!fetch(w.dsts, i, numbers, x)) return false;
        store_item(i, numbers, x);
      } else if (!fold_item(i, numbers)) {
        return false;
      }
    }
    return true;
  }

  RINGWOOD_DEVICE bool fold_item(uint64_t i, int numbers) {
    State sum[kNumbers];
    typename N::Wide x[kNumbers];
    if (!fetch_numbers(w.dsts, i, numbers, x)) return false;
    RINGWOOD_UNROLL
    for (int e = 0; e < kNumbers; ++e) sum[e].first(x[e], of_first());
    for (int k = 1; k < w.srcs; ++k) {
      if (!fetch_numbers(w.dsts + k, i, numbers, x)) return false;
      RINGWOOD_UNROLL
      for (int e = 0; e < kNumbers; ++e) sum[e].next(x[e], scale(k));
    }
    const Finish end = finish_of(w, a);
    Item rounded;
    RINGWOOD_UNROLL
    for (int e = 0; e < kNumbers; ++e) {
      x[e] = sum[e].last(end);
      rounded.number[e] = N::stored(m, x[e]);
    }
    if (N::kSmall && (w.flags & kWide)) store_wide(i, numbers, x);
    store_item(i, numbers, rounded);
    return true;
  }
  RINGWOOD_DEVICE bool fetch_numbers(int k, uint64_t i, int numbers,
                                     typename N::Wide (&x)[kNumbers]) {
    if (is_wide(k)) {
      const float* const from = reinterpret_cast<const float*>(s.at[k]) + i * kNumbers;
      RINGWOOD_UNROLL
      for (int e = 0; e < kNumbers; ++e)
        x[e] = typename N::Wide(e < numbers ? m.load(from + e) : 0);
      return true;
    }
    Item item;
    if (!fetch(k, i, numbers, item)) return false;
    RINGWOOD_UNROLL
    for (int e = 0; e < kNumbers; ++e) x[e] = N::wide(m, item.number[e]);
    return true;
  }

  RINGWOOD_DEVICE bool fetch(int k, uint64_t i, int numbers, Item& x) {
    const Operand& from = a.operands[w.operand + uint32_t(k)];
    if (from.space == Space::slot) {
      const uint64_t* const slot = reinterpret_cast<const uint64_t*>(s.at[k]) + i * kPackets;
      RINGWOOD_UNROLL
      for (int p = 0; p < kPackets; ++p) {
        uint64_t packet = 0;
        const auto come = [&] {
          packet = m.load_relaxed(slot + p);
          return packet >> 32 == (v & 0xffffffffu);
        };
        if (!wait_until(m, a, segment, come, {from.rank, kPacketNumber, v, v, 0})) return false;
        x.packet[p] = uint32_t(packet);
      }
      return true;
    }
    RINGWOOD_UNROLL
    for (int p = 0; p < kPackets; ++p) x.packet[p] = 0;
    const Stored* const memory = reinterpret_cast<const Stored*>(s.at[k]) + i * kNumbers;
    RINGWOOD_UNROLL
    for (int e = 0; e < kNumbers; ++e)
      if (e < numbers) x.number[e] = m.load(memory + e);
    return true;
  }
  RINGWOOD_DEVICE void store_item(uint64_t i, int numbers, const Item& x) {
    for (int k = 0; k < w.dsts; ++k) {
      const Space space = a.operands[w.operand + uint32_t(k)].space;
      if (is_wide(k)) continue;
      if (space == Space::slot) {
        uint64_t* const slot = reinterpret_cast<uint64_t*>(s.at[k]) + i * kPackets;
        RINGWOOD_UNROLL
        for (int p = 0; p < kPackets; ++p) m.store_relaxed(slot + p, v << 32 | x.packet[p]);
        continue;
      }
      Stored* const memory = reinterpret_cast<Stored*>(s.at[k]) + i * kNumbers;
      RINGWOOD_UNROLL
      for (int e = 0; e < kNumbers; ++e)
        if (e < numbers) m.store(memory + e, x.number[e]);
    }
  }
  RINGWOOD_DEVICE void store_wide(uint64_t i, int numbers, const typename N::Wide (&x)[kNumbers]) {
    for (int k = 0; k < w.dsts; ++k) {
      if (!is_wide(k)) continue;
      float* const to = reinterpret_cast<float*>(s.at[k]) + i * kNumbers;
      RINGWOOD_UNROLL
      for (int e = 0; e < kNumbers; ++e)
        if (e < numbers) m.store(to + e, float(x[e]));
    }
  }
};

}  // namespace ringwood::device
