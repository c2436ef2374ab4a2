#include "transports/adopt.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "transports/log.h"

namespace ringwood {
namespace {

constexpr uintptr_t kPage = 4096;
constexpr unsigned kMostReluctant = 768;
constexpr size_t kMostCandidates = 4096;
constexpr auto kBetweenCollections = std::chrono::seconds(1);

uintptr_t down(uintptr_t address) { return address & ~(kPage - 1); }
uintptr_t up(uintptr_t address) { return down(address + kPage - 1); }
std::byte* pointer(uintptr_t address) { return std::bit_cast<std::byte*>(address); }

// One that does not take pages for zeros because it has given them to MADV_DONTNEED. The
// sanitizers' do that with small blocks only.
bool allocator_is_known() {
  static constexpr std::string_view kKnown[] = {"libc.so", "libasan.so", "libtsan.so"};
  Dl_info info{};
  void* const malloc_here = ::dlsym(RTLD_DEFAULT, "malloc");
  if (!malloc_here || ::dladdr(malloc_here, &info) == 0 || !info.dli_fname) return false;
  std::string_view name = info.dli_fname;
  name = name.substr(name.rfind('/') + 1);
  return std::any_of(std::begin(kKnown), std::end(kKnown),
                     [&](std::string_view known) { return name.starts_with(known); });
}

// glibc gives threads heaps of their own that begin at multiples of 64 MiB: with a pointer to their
// arena, which lies behind the head of the same or another heap, the previous heap, and the size.
bool of_a_threads_heap(uintptr_t address) {
  constexpr uintptr_t kHeap = uintptr_t{64} << 20;
  constexpr uintptr_t kLongestHead = 128;
  uintptr_t head[3];
  const iovec here{head, sizeof head}, there{pointer(address & ~(kHeap - 1)), sizeof head};
  // Not read directly: it may be somebody else's, and be unmapped at any moment.
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof head) return errno != EFAULT;
  const bool arena = head[0] != 0 && head[0] % kHeap != 0 && head[0] % kHeap <= kLongestHead;
  return arena && head[1] % kHeap == 0 && head[2] <= kHeap && head[2] % kPage == 0;
}

std::atomic<Adopted*> the_one{nullptr};

Adopted* mine(Adopted* adopted, int pid) { return forked_since(pid) ? nullptr : adopted; }

}  // namespace

// The block begins a page before the first whole page.
uint64_t Adopted::Range::offset_of(uintptr_t address) const {
  return offset + (address - (first - kPage));
}
uint64_t Adopted::Range::block_bytes() const { return last - first + 2 * kPage; }

Adopted::Adopted(Arena& arena) : arena_(arena), file_(FileId::of(arena.fd())) {}

// Never destroyed: buffers outlive everything else in the process.
Adopted* Adopted::of_process() {
  if (Adopted* made = current()) return made;
  const auto none = [](const std::string& why) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) log(LogLevel::warn, "shm", "no buffer is adopted: " + why);
    return nullptr;
  };
  Arena* arena = Arena::of_process();
  if (!arena) return none("this machine gives no memory that ranks can share");
  if (!allocator_is_known()) return none("malloc() is not the C library's");
  try {
    static const int installed =
        pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    if (installed != 0) return none("fork() cannot be prepared for it");
    std::unique_ptr<Adopted> fresh(new Adopted(*arena));
    Adopted* seen = nullptr;
    if (the_one.compare_exchange_strong(seen, fresh.get())) (void)fresh.release();
  } catch (const Error& error) {
    return none(error.cause);
  }
  return current();
}

Adopted* Adopted::current() noexcept {
  Adopted* adopted = the_one.load(std::memory_order_acquire);
  return adopted ? mine(adopted, adopted->pid_) : nullptr;
}

// ---- which buffers

void Adopted::used(const void* data, size_t bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(changing_);
  if (const auto now = Clock::now(); now - collected_ > kBetweenCollections) {
    collected_ = now;
    collect_locked();
  }
  if (knows(data, bytes) || arena_.offset_of(data, 1)) return;
  if (candidates_.size() >= kMostCandidates) candidates_.clear();
  Candidate& candidate = candidates_[{begin, bytes}];
  if (++candidate.seen < candidate.needed) return;
  candidate.seen = 0;
  candidate.needed = std::min(candidate.needed * 4, kMostReluctant);
  adopt_locked(begin, begin + bytes);
}

bool Adopted::adopt(const void* data, size_t bytes) noexcept {
  std::lock_guard lock(changing_);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return adopt_locked(begin, begin + bytes);
}

const Adopted::Range* Adopted::covering(uintptr_t begin, uintptr_t end) const {
  auto found = ranges_.upper_bound(begin);
  if (found == ranges_.begin()) return nullptr;
  const Range& range = std::prev(found)->second;
  return end <= range.end ? &range : nullptr;
}

bool Adopted::knows(const void* data, size_t bytes) noexcept {
  const Adopted* const adopted = current();
  if (!adopted) return false;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  std::shared_lock table(adopted->table_);
  return adopted->covering(begin, begin + bytes) != nullptr;
}

bool Adopted::in_place(const Range& range) const noexcept {
  return maps_.holds(range.first, range.last, file_, range.offset_of(range.first));
}

// ---- adopting

bool Adopted::adopt_locked(uintptr_t begin, uintptr_t end) noexcept {
  Range range{begin, end, up(begin), down(end), {}, 0};
  if (range.first >= range.last) return false;
  try {
    {
      std::shared_lock table(table_);
      const Range* known = covering(begin, end);
      if (known && in_place(*known)) return true;
    }
    if (of_a_threads_heap(range.first)) return false;
    if (!maps_.ordinary(range.first, range.last, file_)) return false;
    give_back_unmapped();
    const size_t bytes = range.last - range.first;
    void* const block = arena_.allocate(range.block_bytes(), range.first - kPage);
    range.block.reset(static_cast<std::byte*>(block), [this](void* data) { arena_.release(data); });
    arena_.keep_from_forks(block);  // they get it where it is in use
    range.offset = *arena_.offset_of(block, 1);
    std::byte* const pages = fill(range);
    if (!pages || !put_in_place(pages, range.first, bytes)) return false;
  } catch (const std::exception&) {  // no room
    return false;
  }
  drop_overlapping(begin, end);
  std::lock_guard table(table_);
  ranges_[begin] = range;
  return true;
}

// The block's whole pages, mapped somewhere else, with what the buffer's hold. Null: no memory.
std::byte* Adopted::fill(const Range& range) const noexcept {
  const size_t bytes = range.last - range.first;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena_.fd(),
                             static_cast<off_t>(range.offset_of(range.first)));
  if (pages == MAP_FAILED) return nullptr;
  ::madvise(pages, bytes, MADV_HUGEPAGE);
  // Where there is no memory, writing would end the process; this says so.
  if (::madvise(pages, bytes, MADV_POPULATE_WRITE) != 0) {
    ::munmap(pages, bytes);
    return nullptr;
  }
  std::memcpy(pages, pointer(range.first), bytes);
  return static_cast<std::byte*>(pages);
}

// Moves pages over what is mapped at `at`, of the same contents, or else unmaps them. The page
// tables move too, so that nobody pays for faults.
bool Adopted::put_in_place(std::byte* pages, uintptr_t at, size_t bytes) noexcept {
  if (::mremap(pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(at)) != MAP_FAILED)
    return true;
  // The kernel unmaps the destination before the last of its own allocations.
  if (!maps_.at(at) &&
      ::mremap(pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(at)) == MAP_FAILED) {
    log(LogLevel::error, "shm", system_message("a buffer is lost: mremap"));
    std::abort();
  }
  ::munmap(pages, bytes);
  return false;
}

void Adopted::drop_overlapping(uintptr_t begin, uintptr_t end) {
  std::lock_guard table(table_);
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin() && std::prev(next)->second.end > begin) --next;
  while (next != ranges_.end() && next->second.begin < end) {
    retired_.push_back(next->second);
    next = ranges_.erase(next);
  }
}

// ---- lending

std::optional<Adopted::Lent> Adopted::lend(const void* data, size_t bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  Range range;
  {
    std::shared_lock table(table_);
    const Range* known = covering(begin, end);
    if (!known) return std::nullopt;
    range = *known;
  }
  const uintptr_t from = std::max(begin, range.first), to = std::min(end, range.last);
  if (from >= to || !maps_.holds(from, to, file_, range.offset_of(from))) return std::nullopt;
  Lent lent;
  lent.offset = range.offset_of(begin);
  lent.hold = range.block;
  lent.edges[0] = edge(range, begin, std::min(end, range.first));
  lent.edges[1] = edge(range, std::max(begin, range.last), end);
  std::lock_guard lock(edges_);  // of two groups that send the same
  for (const Edge& edge : lent.edges)
    if (edge.bytes > 0) std::memcpy(edge.shadow, edge.own, edge.bytes);
  return lent;
}

Adopted::Edge Adopted::edge(const Range& range, uintptr_t begin, uintptr_t end) const {
  if (begin >= end) return {};
  return {pointer(begin), arena_.at(range.offset_of(begin)), end - begin};
}

// ---- what is over

void Adopted::collect() noexcept {
  std::lock_guard lock(changing_);
  collect_locked();
}

void Adopted::collect_locked() {
  {
    std::lock_guard table(table_);
    for (auto next = ranges_.begin(); next != ranges_.end();) {
      if (in_place(next->second)) {
        ++next;
        continue;
      }
      retired_.push_back(next->second);
      next = ranges_.erase(next);
    }
  }
  give_back_unmapped();
}

void Adopted::keep_mapped(std::vector<Range>& unmapped) const {
  const auto mapped = pieces();
  std::erase_if(unmapped, [&](const Range& range) {
    return std::any_of(mapped.begin(), mapped.end(), [&](const Mapping& m) {
      return m.offset < range.offset + range.block_bytes() &&
             range.offset < m.offset + (m.end - m.begin);
    });
  });
}

void Adopted::give_back_unmapped() {
  if (retired_.empty()) return;
  std::vector<Range> unmapped = retired_;
  keep_mapped(unmapped);
  if (!unmapped.empty()) keep_mapped(unmapped);
  // The other holders of a block besides these two lists are lent messages.
  std::erase_if(retired_, [&](const Range& range) {
    const auto same = [&](const Range& other) { return other.block == range.block; };
    return std::any_of(unmapped.begin(), unmapped.end(), same) && range.block.use_count() == 2;
  });
}

void Adopted::withdraw(const void* data, size_t bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  std::lock_guard lock(changing_);
  std::vector<Range> touched;
  {
    std::shared_lock table(table_);
    for (const auto& [at, range] : ranges_) touched.push_back(range);
  }
  touched.insert(touched.end(), retired_.begin(), retired_.end());
  for (const Range& range : touched) {
    if (range.begin >= end || begin >= range.end || !arena_.in_quarantine(range.block.get()))
      continue;
    if (withdraw_from(range, begin, end)) drop_overlapping(range.begin, range.end);
  }
}

bool Adopted::withdraw_from(const Range& range, uintptr_t begin, uintptr_t end) noexcept {
  const uintptr_t from = std::max(up(begin), range.first), to = std::min(down(end), range.last);
  if (from >= to || !maps_.holds(from, to, file_, range.offset_of(from))) return false;
  const size_t bytes = to - from;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) return false;
  copy_across(static_cast<std::byte*>(pages), pointer(from), bytes);
  return put_in_place(static_cast<std::byte*>(pages), from, bytes);
}

size_t Adopted::bytes_held() noexcept {
  std::lock_guard lock(changing_);
  size_t bytes = 0;
  for (const Range& range : retired_) bytes += range.block_bytes();
  std::shared_lock table(table_);
  for (const auto& [begin, range] : ranges_) bytes += range.block_bytes();
  return bytes;
}

// ---- forks

// Where the arena's file lies in buffers. The arena itself is mapped as a whole, here and, where
// ranks are threads, by its peers.
std::vector<Mapping> Adopted::pieces() const {
  std::vector<Mapping> found = maps_.shared_mappings_of(file_);
  std::erase_if(found, [&](const Mapping& m) { return m.end - m.begin == arena_.bytes(); });
  return found;
}

namespace {
thread_local ForkHandover handover;

// Of a mapping that the child has inherited; no other thread runs here.
bool make_private(const Mapping& shared) noexcept {
  const size_t bytes = shared.end - shared.begin;
  if (!shared.readable) return ::munmap(pointer(shared.begin), bytes) == 0;
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  // Not memcpy: parts of it may have been freed, which is no fault of who keeps the pages.
  copy_across(static_cast<std::byte*>(pages), pointer(shared.begin), bytes);
  return ::mremap(pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(shared.begin)) !=
         MAP_FAILED;
}

bool make_private(const FileId& file) noexcept {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  bool all = true;
  for (auto next = ProcessMaps::next_shared(maps, 0); next && all;
       next = ProcessMaps::next_shared(maps, next->end))
    if (next->file == file) all = make_private(*next);
  ::close(maps);
  return all;
}
}  // namespace

void Adopted::before_fork() {
  if (current()) handover.before_fork();
}

void Adopted::after_fork_in_parent() { handover.wait_for_child(); }

// Only async-signal-safe calls. The object is dead here: current() is null.
void Adopted::after_fork_in_child() {
  const Adopted* const adopted = the_one.exchange(nullptr);
  if (!adopted) return;
  if (!make_private(adopted->file_)) {
    constexpr char kWhy[] = "ringwood: no memory for a forked process's copy of adopted buffers\n";
    (void)!::write(2, kWhy, sizeof kWhy - 1);
    ::_exit(71);
  }
  handover.done_in_child();
}

}  // namespace ringwood
