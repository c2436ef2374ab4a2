#include "collectives/device/group/island.h"

#include <cstring>
#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include "transports/base/host.h"
#include "transports/base/result.h"
#include "transports/shm/unix_socket.h"

namespace ringwood::device {

// Plain data: what a rank tells the others. Texts are cut, and end with 0.
struct Island::Facts {
  uint64_t key = 0;  // a peer's descriptor comes with it
  uint64_t bytes = 0;
  cuda::Uuid uuid;
  char host[64] = {};
  char socket[48] = {};
  char flaw[256] = {};
};

namespace {

constexpr uint64_t kPattern = 0x52696e67776f6f64;  // what a probe writes, with the ranks

template <size_t kRoom>
void set(char (&to)[kRoom], const std::string& text) {
  std::strncpy(to, text.c_str(), kRoom - 1);
}
template <size_t kRoom>
std::string text_of(const char (&from)[kRoom]) {
  return {from, strnlen(from, kRoom)};
}

uint64_t random_key() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// What comes with a descriptor.
struct Ticket {
  uint64_t key = 0;  // of the rank that it goes to
  int32_t from = -1;
  int32_t pad = 0;
};

template <class T>
std::vector<T> gathered(const GatherBytes& gather, const T& own) {
  const std::vector<std::byte> bytes = gather(std::as_bytes(std::span(&own, 1)));
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(static_cast<void*>(all.data()), bytes.data(), all.size() * sizeof(T));
  return all;
}

struct Flaw {
  char text[1024] = {};
};

// The text of what `step` throws, or "".
template <class Step>
std::string flaw_of(Step step) {
  try {
    step();
    return "";
  } catch (...) {
    return caught_error().cause;
  }
}

}  // namespace

GatherBytes gather_by(Communicator& group) {
  return [&group](std::span<const std::byte> own) {
    std::vector<std::byte> all(own.size() * static_cast<size_t>(group.size()));
    const Status done =
        group.all_gather(own.data(), all.data(), own.size(), DataType::uint8)->wait();
    if (!done) throw Error(done.error());
    return all;
  };
}

void agree_on(const GatherBytes& gather, const std::string& flaw) {
  Flaw own;
  set(own.text, flaw);
  const std::vector<Flaw> all = gathered(gather, own);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].text[0] != 0)
      throw Error(ErrorCode::unsupported,
                  fmt::format("GPUs: rank {}: {}", rank, text_of(all[rank].text)));
}

Island::Island(const cuda::Device& device, size_t bytes, size_t zeroed, int rank, int n,
               const GatherBytes& gather, Deadline deadline)
    : device_(device),
      rank_(rank),
      bytes_(bytes),
      peers_(static_cast<size_t>(n)),
      bases_(static_cast<size_t>(n)),
      uuids_(static_cast<size_t>(n)) {
  own_ = made_by_all(gather, [&] {
    stream_ = std::make_unique<cuda::Stream>(device_);
    auto arena = std::make_unique<cuda::DeviceArena>(device_, bytes);
    const cuda::CurrentContext current(device_);
    device_.require(device_.driver().memory.fill(arena->base(), 0, zeroed, stream_->get()),
                    "cuMemsetD8Async");
    stream_->synchronize();
    return arena;
  });
  bases_[static_cast<size_t>(rank)] = own_->base();
  exchange(gather, deadline);
  probe(gather);
}

Island::~Island() {
  if (closed_) return;
  if (own_) own_->leave();
  for (const auto& peer : peers_)
    if (peer) peer->leave();
}

void Island::exchange(const GatherBytes& gather, Deadline deadline) {
  Facts own;
  own.key = random_key();
  own.bytes = own_->bytes();
  own.uuid = device_.facts().uuid;
  set(own.host, host_token());
  const std::string name = fmt::format("ringwood-cuda-{}-{:016x}", ::getpid(), random_key());
  set(own.socket, name);
  const OwnedFd listener = shm::listen_at(name);
  const std::vector<Facts> all = gathered(gather, own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    uuids_[rank] = all[rank].uuid;
    if (text_of(all[rank].host) != text_of(all[0].host))
      throw Error(ErrorCode::unsupported,
                  fmt::format("GPUs: rank {} is on another host than rank 0; tensors of GPUs are "
                              "exchanged within a host only",
                              rank));
    if (all[rank].bytes != own.bytes)
      throw Error(ErrorCode::mismatch,
                  fmt::format("GPUs: rank {} has an arena of {} B, rank {} of {} B", rank,
                              all[rank].bytes, rank_, own.bytes));
  }
  // Before anybody waits for it.
  const auto shared = made_by_all(gather, [&] { return std::make_unique<OwnedFd>(own_->share()); });
  std::vector<OwnedFd> fds(all.size());
  agree_on(gather, flaw_of([&] { take_descriptors(all, shared->get(), listener, fds, deadline); }));
  agree_on(gather, flaw_of([&] {
             for (size_t rank = 0; rank < all.size(); ++rank) {
               if (static_cast<int>(rank) == rank_) continue;
               std::vector<cuda::SharedPart> parts(1);
               parts[0] = {std::move(fds[rank]), own.bytes};
               peers_[rank] = std::make_unique<cuda::PeerArena>(device_, parts);
               bases_[rank] = peers_[rank]->base();
             }
           }));
}

// Sends first: a socket's queue takes all of it before anybody accepts.
void Island::take_descriptors(const std::vector<Facts>& all, int shared, const OwnedFd& listener,
                              std::vector<OwnedFd>& fds, Deadline deadline) {
  std::vector<OwnedFd> sent;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == rank_) continue;
    sent.push_back(shm::connect_to(text_of(all[rank].socket), deadline));
    const Ticket ticket{all[rank].key, rank_, 0};
    shm::send_message(sent.back().get(), &ticket, sizeof ticket, {&shared, 1}, deadline);
  }
  for (size_t left = all.size() - 1; left > 0;) {
    const OwnedFd peer = shm::accept_one(listener.get(), deadline);
    Ticket ticket;
    std::vector<OwnedFd> got;
    // Peers send at once. A stranger that sends nothing costs a second.
    const auto silent = flaw_of([&] {
      got = shm::receive_message(peer.get(), &ticket, sizeof ticket,
                                 Deadline::after(std::chrono::seconds(1)));
    });
    if (!silent.empty()) continue;
    const auto from = static_cast<size_t>(ticket.from);
    // A stranger's: this is a name that anybody on the host can connect to.
    if (ticket.key != all[static_cast<size_t>(rank_)].key || from >= all.size() ||
        got.size() != 1 || fds[from])
      continue;
    fds[from] = std::move(got[0]);
    --left;
  }
}

void Island::probe(const GatherBytes& gather) {
  const cuda::CurrentContext current(device_);
  const size_t n = bases_.size();
  std::vector<uint64_t> told(n), found(n);
  const cuda::Driver& driver = device_.driver();
  const auto require = [&](cuda::CUresult code, const char* call) { device_.require(code, call); };
  const cuda::CUdeviceptr end = bytes_ / 256 * 256 - 256 * ((n * 8 + 255) / 256);
  agree_on(gather, flaw_of([&] {
             for (size_t rank = 0; rank < n; ++rank) {
               told[rank] = kPattern ^ (static_cast<uint64_t>(rank_) << 32 | rank);
               require(
                   driver.memory.copy_to_device(bases_[rank] + end + 8 * static_cast<size_t>(rank_),
                                                &told[rank], 8, stream_->get()),
                   "cuMemcpyHtoDAsync");
             }
             stream_->synchronize();
           }));
  agree_on(
      gather, flaw_of([&] {
        require(driver.memory.copy_to_host(found.data(), own_->base() + end, n * 8, stream_->get()),
                "cuMemcpyDtoHAsync");
        stream_->synchronize();
        for (size_t rank = 0; rank < n; ++rank)
          if (found[rank] !=
              (kPattern ^ (static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(rank_))))
            throw Error(ErrorCode::unsupported,
                        fmt::format("what rank {} has written to the memory of {} did not arrive "
                                    "(a PCIe switch with ACS, or an IOMMU, between the GPUs?)",
                                    rank, device_.facts().uuid.text()));
      }));
}

void Island::close(const GatherBytes& gather) {
  agree_on(gather, "");
  closed_ = true;
}

}  // namespace ringwood::device
