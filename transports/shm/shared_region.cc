#include "transports/shm/shared_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>

#include "transports/base/input_file.h"
#include "transports/base/shared_file.h"

namespace ringwood::shm {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kLargest = uint64_t{1} << 30;
constexpr uint64_t kSmallestRing = uint64_t{64} << 10;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// With strict accounting every page must be paid for in advance; a page that cannot be had later is
// a SIGBUS.
bool strict_accounting() {
  int mode = 0;
  InputFile("/proc/sys/vm/overcommit_memory") >> mode;
  return mode == 2;
}

void size(int fd, uint64_t bytes) {
  rlimit limit{};
  // Beyond the limit the kernel would end the process (SIGXFSZ).
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    fail_set_up(
        fmt::format("{} bytes of shared memory exceed the file size limit (ulimit -f) of {}", bytes,
                    limit.rlim_cur));
  }
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    fail_set_up(system_message("ftruncate of shared memory"));
  if (strict_accounting() && ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    fail_set_up(system_message("fallocate of shared memory") + "; lower RINGWOOD_SHM_RING_BYTES");
  }
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) fail_set_up(system_message("sealing shared memory"));
}

}  // namespace

uint64_t Geometry::directions_at() const { return round_up(members * sizeof(Member), 4096); }
uint64_t Geometry::eager_slots_at() const {
  return round_up(directions_at() + uint64_t{members} * members * channels * sizeof(Direction),
                  4096);
}
uint64_t Geometry::rings_at() const {
  const uint64_t eager_slots =
      has_eager_slots() ? uint64_t{members} * members * channels * sizeof(EagerDirection) : 0;
  return round_up(eager_slots_at() + eager_slots, kHugePage);
}
uint64_t Geometry::total() const {
  const uint64_t pair = ring_bytes + (channels - 1) * ring_bytes_of(1);
  return round_up(rings_at() + uint64_t{members} * members * pair, kHugePage);
}

Geometry make_geometry(size_t members, int channels, size_t ring_bytes) {
  Geometry geometry;
  geometry.members = static_cast<uint32_t>(members);
  geometry.channels = static_cast<uint32_t>(channels);
  geometry.ring_bytes = std::max<uint64_t>(std::bit_floor(ring_bytes), kSmallestRing);
  while (geometry.total() > kLargest && geometry.ring_bytes > kSmallestRing)
    geometry.ring_bytes /= 2;
  return geometry;
}

SharedRegion::SharedRegion(OwnedFd fd, const Geometry& geometry)
    : fd_(std::move(fd)), geometry_(geometry), pid_(getpid()) {
  void* base = ::mmap(nullptr, geometry.total(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      fd_.get(), 0);
  if (base == MAP_FAILED) {
    fail_set_up(
        fmt::format("{} ({} bytes)", system_message("mmap of shared memory"), geometry.total()));
  }
  base_ = static_cast<std::byte*>(base);
  // A child that wrote here would send in its parent's name.
  if (::madvise(base, geometry.total(), MADV_DONTFORK) != 0) {
    const std::string why = system_message("madvise(MADV_DONTFORK)");
    ::munmap(base, geometry.total());
    fail_set_up(why);
  }
  // With huge pages the first touch costs a seventh; without them nothing else changes.
  if (geometry.ring_bytes >= kHugePage / 2) {
    ::madvise(base_ + geometry.rings_at(), geometry.total() - geometry.rings_at(), MADV_HUGEPAGE);
  }
}

std::shared_ptr<SharedRegion> SharedRegion::create(const Geometry& geometry) {
  OwnedFd fd = make_shared_file("ringwood");
  if (!fd) fail_set_up(system_message("memfd_create"));
  close_on_fork(fd.get());
  size(fd.get(), geometry.total());
  return std::shared_ptr<SharedRegion>(new SharedRegion(std::move(fd), geometry));
}

std::shared_ptr<SharedRegion> SharedRegion::attach(OwnedFd fd, const Geometry& geometry) {
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) fail_set_up(system_message("fstat of shared memory"));
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    fail_set_up("the offered shared memory is not sealed against shrinking");
  if (static_cast<uint64_t>(file.st_size) < geometry.total()) {
    fail_set_up(fmt::format("the offered shared memory has {} bytes instead of {}", file.st_size,
                            geometry.total()));
  }
  return std::shared_ptr<SharedRegion>(new SharedRegion(std::move(fd), geometry));
}

SharedRegion::~SharedRegion() {
  if (mapped_here()) ::munmap(base_, geometry_.total());
}

Member& SharedRegion::member(int index) const { return reinterpret_cast<Member*>(base_)[index]; }

Direction& SharedRegion::direction(int from, int to, int channel) const {
  auto* directions = reinterpret_cast<Direction*>(base_ + geometry_.directions_at());
  return directions[(from * geometry_.members + to) * geometry_.channels + channel];
}

EagerDirection& SharedRegion::eager_slots(int from, int to, int channel) const {
  auto* eager_slots = reinterpret_cast<EagerDirection*>(base_ + geometry_.eager_slots_at());
  return eager_slots[(from * geometry_.members + to) * geometry_.channels + channel];
}

std::byte* SharedRegion::ring(int from, int to, int channel) const {
  const uint64_t small = geometry_.ring_bytes_of(1);
  const uint64_t pair = geometry_.ring_bytes + (geometry_.channels - 1) * small;
  const uint64_t within = channel == 0 ? 0 : geometry_.ring_bytes + (channel - 1) * small;
  return base_ + geometry_.rings_at() + (uint64_t(from) * geometry_.members + to) * pair + within;
}

}  // namespace ringwood::shm
