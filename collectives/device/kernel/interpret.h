// The interpreter: what one block of threads does with the words of its segment (kernel/words.h).
// The same text runs on a GPU and on the host's threads.
//
// M is the machine of one thread:
//   int thread(), threads(), block()
//   void sync()                      a barrier of the block, which orders its threads' accesses
//   bool sync_any(bool)              the same; whether any thread says so
//   load_acquire, store_release, load_relaxed, store_relaxed   of 64 bits, system scope
//   load_relaxed32                   of host memory
//   uint64_t exchange(uint64_t*, uint64_t)                     acquire and release, system scope
//   load(const T*), store(T*, T)     data, ordered by the others only
//   bool first_to_report(uint32_t*, uint32_t)                  compare and swap from 0, system
//                                                              scope
//   float_of_half(uint16_t), half_of_float(float)              to nearest even
//   void relax(); uint64_t nanoseconds()
//
// Who orders what: a hello, and a post, are stores of release after a barrier, so all that the
// block's threads did before is seen by whoever acquires them; a wait is a load of acquire before a
// barrier. A packet is its own flag. Only hear(), wait() and packets wait, each until the limit or
// the host's abort; what stops one thread is agreed on at the next barrier, so all threads of a
// block leave together.
#pragma once

#include "collectives/device/kernel/move.h"

namespace ringwood::device {

// N: the numbers (numbers.h), kFold: what is done with them, by one kernel each.
template <class N, Fold kFold, class M>
class Interpreter final {
 public:
  RINGWOOD_DEVICE Interpreter(M& machine, BlockMemory& shared, const Launch& launch)
      : m_(machine), shared_(shared), a_(launch), segment_(machine.block()) {
    v_ = *at<uint64_t>(a_.rank, a_.window.sequence(segment_)) + 1;
  }

  RINGWOOD_DEVICE void run() {
    bool bad = begin();
    const Word* next = a_.words + a_.first[segment_];
    Word word = read(next);
    if (!bad) {
      for (; word.flags & kPrologue; word = read(++next)) pass(word);
      if ((v_ & 0x7ffffffe) == 0) clear_packets();
      m_.sync();
      for (int peer = m_.thread(); peer < a_.n; peer += m_.threads())
        if (peer != a_.rank) greet(peer);
    }
    bool heard = false;
    for (; !bad; word = read(++next)) {
      if (!(word.flags & kEarly) && !heard) {
        bad = hear();
        heard = true;
        if (bad) break;
      }
      if (word.verb == WordVerb::end) break;
      if (word.verb == WordVerb::pass)
        bad = pass(word);
      else if (word.verb == WordVerb::post)
        post(word);
      else
        bad = wait(word);
    }
    m_.sync();
    if (is_ours_) end();
  }

 private:
  // All of it at once.
  template <class T>
  RINGWOOD_DEVICE T read(const T* from) {
    return bits_as<T>(m_.load(reinterpret_cast<const Vector*>(from)));
  }
  template <class T>
  RINGWOOD_DEVICE T* at(int rank, size_t offset) const {
    return reinterpret_cast<T*>(a_.arena[rank] + offset);
  }
  RINGWOOD_DEVICE uint64_t stamp() const { return v_ << 32; }

  // True: another kernel of this group runs.
  RINGWOOD_DEVICE bool begin() {
    bool bad = false;
    if (m_.thread() == 0) {
      bad = m_.exchange(at<uint64_t>(a_.rank, a_.window.busy(segment_)), 1) != 0;
      is_ours_ = !bad;
      if (bad) stop(Code::busy, {a_.rank, 0, v_, 0, 1});
      for (int space = 0; space < kSharedSpaces; ++space)
        bad |= !place(a_.rank, space, a_.place[space]);
      shared_.factor[a_.rank] = a_.tells_factor ? a_.factor : a_.scale;
    }
    return m_.sync_any(bad);
  }
  RINGWOOD_DEVICE void end() {
    *at<uint64_t>(a_.rank, a_.window.sequence(segment_)) = v_;
    m_.exchange(at<uint64_t>(a_.rank, a_.window.busy(segment_)), 0);
  }

  // Where a rank says that it has one of its spaces. False: not within what is mapped of it.
  RINGWOOD_DEVICE bool place(int rank, int space, PlaceWord where) {
    const uint64_t reach = a_.reach[rank * kSharedSpaces + space];
    const uint64_t range = where >> 56, offset = where & ((uint64_t(1) << 56) - 1);
    if (range >= kMappedPerRank) return refused(rank, space, where);
    const MappedMemory& memory = a_.mapped[uint64_t(rank) * kMappedPerRank + range];
    if (offset > memory.bytes || reach > memory.bytes - offset) return refused(rank, space, where);
    shared_.base[rank][space] = memory.base + offset;
    return true;
  }
  RINGWOOD_DEVICE bool refused(int rank, int space, PlaceWord where) {
    return stop(Code::bad_place, {rank, uint32_t(space), v_, 0, where});
  }
  // False. The copy keeps the machine itself in registers.
  RINGWOOD_DEVICE bool stop(Code code, const Stop& why) {
    M copy = m_;
    report(copy, a_, segment_, code, why);
    return false;
  }

  RINGWOOD_DEVICE void greet(int peer) {
    Hello* const hello = at<Hello>(peer, a_.window.hello(v_ & 1, segment_, a_.rank));
    for (int space = 0; space < kSharedSpaces; ++space)
      m_.store_relaxed(&hello->place[space], a_.place[space]);
    m_.store_relaxed(&hello->factor, bits_as<uint64_t>(a_.factor));
    m_.store_release(&hello->stamp, stamp() | a_.digest);
  }

  RINGWOOD_DEVICE void clear_packets() {
    uint64_t* const packets = at<uint64_t>(a_.rank, a_.window.packets((v_ + 1) & 1, segment_));
    for (uint32_t i = uint32_t(m_.thread()); i < a_.window.packet_bytes / 8;
         i += uint32_t(m_.threads()))
      m_.store_relaxed(packets + i, 0);
  }

  RINGWOOD_DEVICE bool hear() {
    bool bad = false;
    for (int peer = m_.thread(); peer < a_.n && !bad; peer += m_.threads())
      if (peer != a_.rank) bad = !hear(peer);
    return m_.sync_any(bad);
  }
  RINGWOOD_DEVICE bool hear(int peer) {
    Hello* const hello = at<Hello>(a_.rank, a_.window.hello(v_ & 1, segment_, peer));
    uint64_t seen = 0;
    const auto told = [&] {
      seen = m_.load_acquire(&hello->stamp);
      return seen >> 32 == stamp() >> 32;
    };
    if (!until(told, {peer, 0, v_, stamp() | a_.digest, 0})) return false;
    if (uint32_t(seen) != a_.digest)
      return stop(Code::mismatch, {peer, 0, v_, a_.digest, uint32_t(seen)});
    bool good = true;
    for (int space = 0; space < kSharedSpaces; ++space)
      good &= place(peer, space, m_.load_relaxed(&hello->place[space]));
    const uint64_t factor = m_.load_relaxed(&hello->factor);
    shared_.factor[peer] = a_.tells_factor ? bits_as<double>(factor) : a_.scale;
    return good;
  }

  // All that the block's threads did before is behind a barrier: a pass, a wait and the hellos end
  // with one.
  RINGWOOD_DEVICE void post(const Word& word) {
    for (int k = m_.thread(); k < word.srcs; k += m_.threads()) {
      const Operand to = read(a_.operands + word.operand + k);
      m_.store_release(at<uint64_t>(to.rank, a_.window.point(segment_, a_.rank)),
                       v_ << 16 | to.number);
    }
  }

  RINGWOOD_DEVICE bool wait(const Word& word) {
    bool bad = false;
    for (int k = m_.thread(); k < word.srcs && !bad; k += m_.threads()) {
      const Operand from = read(a_.operands + word.operand + k);
      const uint64_t* point = at<uint64_t>(a_.rank, a_.window.point(segment_, from.rank));
      const uint64_t expected = v_ << 16 | from.number;
      const auto told = [&] { return m_.load_acquire(point) >= expected; };
      bad = !until(told, {from.rank, from.number, v_, expected, 0});
    }
    return m_.sync_any(bad);
  }

  template <class Ready>
  RINGWOOD_DEVICE bool until(Ready ready, const Stop& stop) {
    return wait_until(m_, a_, segment_, ready, stop);
  }

  RINGWOOD_DEVICE bool pass(const Word& word) {
    const int count = word.dsts + word.srcs;
    for (int k = m_.thread(); k < count; k += m_.threads()) {
      const Operand operand = read(a_.operands + word.operand + k);
      shared_.at[k] = address(operand);
      shared_.scale[k] = operand.flags & kOwn ? shared_.factor[operand.number] : 1;
    }
    m_.sync();
    Mover<N, kFold, M> mover{m_, shared_, a_, word, segment_, v_};
    return m_.sync_any(!mover.move());
  }
  RINGWOOD_DEVICE char* address(const Operand& operand) const {
    switch (operand.space) {
      case Space::slot:
        return at<char>(operand.rank, a_.window.packets(v_ & 1, segment_) + operand.offset);
      case Space::user_input: return a_.user_input + operand.offset;
      case Space::user_output: return a_.user_output + operand.offset;
      case Space::wide: return shared_.base[a_.rank][int(Space::scratch)] + operand.offset;
      default: return shared_.base[operand.rank][int(operand.space)] + operand.offset;
    }
  }

  M& m_;
  BlockMemory& shared_;
  const Launch& a_;
  const int segment_;
  uint64_t v_;            // this operation's number
  bool is_ours_ = false;  // of the first thread: no other kernel of this group runs
};

}  // namespace ringwood::device
