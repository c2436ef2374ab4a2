// Groups, asynchronous operations, forks, and everything that a program may do to its memory, at
// once, on buffers that are remapped again and again: every result must be exact.
//
// Each run takes other random numbers: GTEST_REPEAT=100 makes it long.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "tests/support/inputs.h"
#include "tests/support/ranks.h"
#include "transports/memory/remap.h"

namespace ringwood::testing {
namespace {

constexpr size_t kPage = 4096;
constexpr int kRanks = 3;
constexpr size_t kSlots = 5;
constexpr int kRounds = kSlow ? 40 : 120;

// A buffer as programs have them: out of malloc() or of mmap(), beginning anywhere.
class Memory {
 public:
  Memory(std::mt19937& random, size_t bytes) : random_(random) { take(bytes); }
  ~Memory() { give_back(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  int32_t* data() const { return reinterpret_cast<int32_t*>(base_ + late_); }

  // Makes room for `bytes`, and spoils what was there.
  void change(size_t bytes) {
    switch (random_() % 7) {
      case 0:
        give_back();
        take(bytes);
        break;
      case 1: grow(bytes); break;
      case 2: ::madvise(whole_pages(), size_ / kPage * kPage - kPage, MADV_DONTNEED); break;
      case 3: replace(0, size_ / kPage); break;
      case 4: replace(size_ / kPage / 3, 1 + random_() % 4); break;
      case 5:
        give_back();
        RemappedMemory::current()->collect();
        take(bytes);
        break;
      default: {  // the same addresses, probably
        const bool mapped = mapped_;
        give_back();
        const std::unique_ptr<std::byte[]> between(new std::byte[3 * kPage]);
        take(bytes, mapped);
      }
    }
    if (size_ < bytes + kPage) {
      give_back();
      take(bytes);
    }
  }

 private:
  void take(size_t bytes) { take(bytes, random_() % 2 == 0); }
  void take(size_t bytes, bool mapped) {
    mapped_ = mapped;
    late_ = random_() % 200 * 4;
    size_ = (bytes / kPage + 2 + random_() % 8) * kPage;
    void* p =
        mapped ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
               : std::malloc(size_);
    if (p == nullptr || p == MAP_FAILED) throw std::runtime_error("no memory");
    base_ = static_cast<std::byte*>(p);
    std::memset(base_, 0x5A, size_);
  }
  void give_back() { mapped_ ? (void)::munmap(base_, size_) : std::free(base_); }
  void grow(size_t bytes) {
    const size_t size = (bytes / kPage + 3 + random_() % 40) * kPage;
    void* p = mapped_ ? ::mremap(base_, size_, size, MREMAP_MAYMOVE) : std::realloc(base_, size);
    if (p == MAP_FAILED) return;  // of several mappings the kernel moves none
    base_ = static_cast<std::byte*>(p);
    size_ = size;
  }
  std::byte* whole_pages() const {
    const auto address = reinterpret_cast<uintptr_t>(base_);
    return base_ + ((kPage - address % kPage) % kPage);
  }
  void replace(size_t page, size_t pages) {
    if (!mapped_) return;  // malloc()'s own pages are not ours to replace
    pages = std::min(pages, size_ / kPage - page);
    ::mmap(base_ + page * kPage, pages * kPage, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }

  std::mt19937& random_;
  bool mapped_ = false;
  size_t late_ = 0, size_ = 0;
  std::byte* base_ = nullptr;
};

int32_t value(int round, size_t slot, int rank, size_t i) {
  return static_cast<int32_t>(
      (round * 31 + static_cast<int>(slot) * 7 + rank * 13 + static_cast<int>(i % 1009)) & 0xFFFF);
}

// One rank. What all ranks must do alike comes from `common`, what each does by itself from `own`.
class Stress {
 public:
  Stress(Communicator& first, Communicator& second, unsigned seed)
      : groups_{&first, &second}, common_(seed), own_(seed * 97 + first.rank()) {
    for (size_t s = 0; s < kSlots; ++s) {
      slots_[s].count = count();
      slots_[s].memory = std::make_unique<Memory>(own_, slots_[s].count * sizeof(int32_t));
    }
  }

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      std::array<OperationPtr, kSlots> operations;
      for (size_t s = 0; s < kSlots; ++s) begin(round, s, operations[s]);
      if (own_() % 16 == 0) fork_and_compare(round, false);
      for (size_t s = 0; s < kSlots; ++s)
        if (operations[s]) must(operations[s]);
      for (size_t s = 0; s < kSlots; ++s) check(round, s);
      if (own_() % 16 == 0) fork_and_compare(round, true);
      for (Slot& slot : slots_) between(slot);
    }
  }
  size_t remapped_rounds() const { return remapped_; }

 private:
  struct Slot {
    std::unique_ptr<Memory> memory;
    size_t count = 0;
    int kind = 0, root = 0;
  };

  size_t count() { return 4096 + common_() % 40000; }
  int rank() const { return groups_[0]->rank(); }

  void begin(int round, size_t s, OperationPtr& operation) {
    Slot& slot = slots_[s];
    int32_t* const data = slot.memory->data();
    for (size_t i = 0; i < slot.count; ++i) data[i] = value(round, s, rank(), i);
    Communicator& group = *groups_[s % 2];
    slot.kind = static_cast<int>(common_() % 3);
    slot.root = static_cast<int>(common_() % kRanks);
    CallOptions call;
    // In one group the order is the same on all ranks; synchronous or not is each one's affair.
    call.synchronous = own_() % 3 == 0 && s + 2 >= kSlots;
    const DataType type = DataType::int32;
    if (slot.kind == 0)
      operation = group.all_reduce(data, slot.count, type, ReduceOp::sum, call);
    else if (slot.kind == 1)
      operation = group.broadcast(data, slot.count, type, slot.root, call);
    else
      operation = group.reduce(data, slot.count, type, ReduceOp::sum, slot.root, call);
  }

  int32_t expected(int round, size_t s, size_t i) const {
    const Slot& slot = slots_[s];
    if (slot.kind == 1) return value(round, s, slot.root, i);
    int32_t sum = 0;
    for (int r = 0; r < kRanks; ++r) sum += value(round, s, r, i);
    return sum;
  }
  bool has_result(const Slot& slot) const { return slot.kind != 2 || slot.root == rank(); }

  size_t wrong(int round, size_t s) const {
    const int32_t* const data = slots_[s].memory->data();
    if (!has_result(slots_[s])) return slots_[s].count;
    size_t i = 0;
    while (i < slots_[s].count && data[i] == expected(round, s, i)) ++i;
    return i;
  }

  void check(int round, size_t s) {
    const Slot& slot = slots_[s];
    const size_t i = wrong(round, s);
    if (i < slot.count)
      throw std::runtime_error(fmt::format("round {} slot {} kind {}: element {} of {} is {}",
                                           round, s, slot.kind, i, slot.count,
                                           slot.memory->data()[i]));
    if (RemappedMemory::current()->expose(slot.memory->data(), slot.count * sizeof(int32_t)))
      ++remapped_;
  }

  // A child sees what there was, whatever its parent does then, and changes nothing of it.
  void fork_and_compare(int round, bool finished) {
    int go[2];
    if (::pipe(go) != 0) throw std::runtime_error("pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      char byte;
      bool right = ::read(go[0], &byte, 1) == 1;
      for (size_t s = 0; s < kSlots; ++s) {
        if (finished) right = right && wrong(round, s) == slots_[s].count;
        std::memset(slots_[s].memory->data(), 0xEE, slots_[s].count * sizeof(int32_t));
      }
      ::_exit(right ? 0 : 1);
    }
    if (finished)
      for (Slot& slot : slots_)
        std::memset(slot.memory->data(), 0xDD, slot.count * sizeof(int32_t));
    (void)!::write(go[1], "x", 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    ::close(go[0]);
    ::close(go[1]);
    if (status != 0)
      throw std::runtime_error(fmt::format("round {}: a child ended with {:x}", round, status));
  }

  void between(Slot& slot) {
    if (common_() % 12 == 0) {
      slot.count = count();
      slot.memory->change(slot.count * sizeof(int32_t));
    } else if (own_() % 24 == 0) {
      slot.memory->change(slot.count * sizeof(int32_t));
    }
  }

  std::array<Communicator*, 2> groups_;
  std::mt19937 common_, own_;
  std::array<Slot, kSlots> slots_;
  size_t remapped_ = 0;
};

TEST(RemapStress, EveryResultIsExact) {
  if (!RemappedMemory::of_process()) GTEST_SKIP() << "nothing can be remapped here";
  ::mallopt(M_MMAP_THRESHOLD, 16 << 10);  // of its heaps nothing is remapped
  static unsigned seed = 0;
  ++seed;
  const auto options = [](int rank) {
    Options o = options_for(rank);
    o.remap = 8 << 10;
    return o;
  };
  auto store = memory_store();
  run_ranks(kRanks, options, [&](Communicator& first) {
    auto second = Communicator::create(prefix_store(store, "second"), first.rank(), kRanks,
                                       options(first.rank()), "second");
    Stress stress(first, *second, seed);
    stress.run();
    // Far from all: most of them do not last.
    EXPECT_GT(stress.remapped_rounds(), kRounds * kSlots / 20) << "rank " << first.rank();
    must(first.barrier());
    must(second->barrier());
  });
}

}  // namespace
}  // namespace ringwood::testing
