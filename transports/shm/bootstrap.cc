// How the ranks of a host set up their shared memory: over one Unix socket, at the lowest of them.
//
//   member                                      leader (lowest rank with this host token)
//     store: "I want shared memory"         ->
//                                           <-  store: the random name of an abstract socket
//     connects; handshake; its doorbell,    ->
//       arena, and end (process_ends.h)
//                                           <-  layout and region, and all of these of all
//     "I have mapped it"                    ->
//                                           <-  which members have
//
// An equal host token is only a reason to try. A member that cannot connect or map says so (in the
// store, or by closing) and is left out for all ranks: the last message is the same for every one.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "transports/base/descriptors.h"
#include "transports/base/log.h"
#include "transports/base/options.h"
#include "transports/base/wait_set.h"
#include "transports/bootstrap/keyed_acceptor.h"
#include "transports/bootstrap/store.h"
#include "transports/bootstrap/strangers/refusals.h"
#include "transports/memory/arena.h"
#include "transports/shm/shared_region.h"
#include "transports/shm/unix_socket.h"

namespace ringwood::shm {
namespace {

constexpr Purpose kPurpose = purpose_of("shm");
constexpr auto kPatience = std::chrono::seconds(10);  // with one member
// How often the leader asks the store which members have failed.
constexpr auto kLook = std::chrono::milliseconds(20);
// That a rank opens beside a socket and kFdsPerRank for each rank of the host.
constexpr size_t kOwnFds = 8;

std::string key(const char* what, int rank) { return fmt::format("shm/{}/{}", what, rank); }

class RegionSetup {
 public:
  RegionSetup(const Group& group, const std::vector<bool>& wanted, int channels)
      : group_(group), wanted_(wanted), channels_(channels) {
    for (int r = 0; r < group.size(); ++r) {
      if (group.hosts[r] == group.hosts[group.rank()]) locals_.push_back(r);
    }
  }

  Bootstrap run() {
    if (locals_.size() < 2) return {};
    const bool wants =
        std::any_of(locals_.begin(), locals_.end(), [&](int r) { return wanted(r); });
    if (group_.rank() == locals_.front()) return lead(wants);
    group_.store->set(key("wants", group_.rank()), wants ? "1" : "0", group_.deadline);
    return wants ? follow() : Bootstrap{};
  }

 private:
  // As kFdsPerRank has them.
  struct Descriptors {
    OwnedFd bell, arena, end;
  };

  struct Guest {
    OwnedFd socket;
    Descriptors its;
    bool missing = false, here = false;  // expected and not yet come; in the region
  };

  bool wanted(int rank) const { return rank != group_.rank() && wanted_[rank]; }

  // ---- the leader ----
  Bootstrap lead(bool wants) {
    Store& store = *group_.store;
    guests_.resize(locals_.size());
    bool anybody = false;
    for (size_t i = 1; i < locals_.size(); ++i) {
      guests_[i].missing = store.get(key("wants", locals_[i]), group_.deadline) == "1";
      anybody |= guests_[i].missing;
    }
    Bootstrap bootstrap;
    if (anybody) bootstrap = host(wants);
    for (int r : locals_) {
      store.remove(key("wants", r));
      store.remove(key("failed", r));
    }
    store.remove(key("door", group_.rank()));
    return bootstrap;
  }

  Bootstrap host(bool wants) {
    std::shared_ptr<SharedRegion> region;
    OwnedFd door;
    std::string name = "ringwood-";
    for (uint8_t byte : random_session()) name += fmt::format("{:02x}", byte);
    try {
      prepare();
      region = SharedRegion::create(
          make_geometry(locals_.size(), channels_, group_.options->shm_ring_bytes));
      door = listen_at(name);
    } catch (const Error& error) {
      log(LogLevel::warn, "shm", fmt::format("no shared memory on this host: {}", error.cause));
      name = "!" + error.cause;
    }
    group_.store->set(key("door", group_.rank()), name, group_.deadline);
    const bool open = static_cast<bool>(door);
    admit(std::move(door));
    if (!region || !open) return {};
    offer(*region);
    guests_[0].here = wants;
    return finish(std::move(region));
  }

  // Accepts connections until every expected member has come or has reported that it cannot. The
  // handshakes run concurrently: a member that connects and sends nothing delays no other.
  void admit(OwnedFd door) {
    asio::io_context io{1};
    Refusals refusals("shm", "the Unix socket of this host's ranks");
    std::optional<KeyedAcceptor> acceptor;
    if (door) {
      acceptor.emplace(
          io, door.release(), group_.identity,
          KeyedAcceptor::Events{[this](const Greeting& g, int fd) { greet(g, OwnedFd(fd)); },
                                [&](const std::string& why) { refusals.note(why); }, nullptr});
    }
    for (;;) {
      auto missing =
          std::find_if(guests_.begin(), guests_.end(), [](const Guest& g) { return g.missing; });
      if (missing == guests_.end()) return;
      if (group_.deadline.passed()) {
        Error late(ErrorCode::timeout,
                   "the rank did not come to the shared memory of its host in time");
        late.peer = locals_[static_cast<size_t>(missing - guests_.begin())];
        late.transport = "shm";
        throw late;
      }
      const size_t before = guests_come_;
      const auto until = Clock::now() + kLook;
      while (guests_come_ == before && io.run_one_until(until) > 0) continue;
      if (guests_come_ != before) continue;
      std::this_thread::sleep_until(until);  // returns at once unless there is no door
      io.restart();
      for (size_t i = 1; i < guests_.size(); ++i) {
        Guest& guest = guests_[i];
        if (guest.missing && group_.store->has(key("failed", locals_[i]), group_.deadline))
          guest.missing = false;
      }
    }
  }

  // A peer that gets here knows the key, and sends its descriptors at once.
  void greet(const Greeting& greeting, OwnedFd socket) {
    if (greeting.purpose != kPurpose) return;
    auto at = std::find(locals_.begin(), locals_.end(), greeting.from);
    if (at == locals_.end()) return;
    Guest& guest = guests_[static_cast<size_t>(at - locals_.begin())];
    if (!guest.missing) return;
    guest.missing = false;
    ++guests_come_;
    try {
      char hello;
      std::vector<OwnedFd> fds = receive_message(socket.get(), &hello, 1, patience());
      if (fds.size() != kFdsPerRank) return;
      guest.its = descriptors(fds.data());
      guest.socket = std::move(socket);
    } catch (const Error&) {  // the member reports itself what went wrong
    }
  }

  // Everything that can fail happens before the last message.
  void offer(const SharedRegion& region) {
    guests_[0].its.bell = OwnedFd(::fcntl(group_.wait_set->doorbell_fd(), F_DUPFD_CLOEXEC, 0));
    guests_[0].its.arena = OwnedFd(::fcntl(arena_fd(), F_DUPFD_CLOEXEC, 0));
    guests_[0].its.end = ends_->take_reading_end();
    std::vector<char> invited(guests_.size());
    std::vector<int> fds;
    for (size_t i = 0; i < guests_.size(); ++i) {
      const Descriptors& its = guests_[i].its;
      invited[i] = its.bell ? 1 : 0;
      if (!invited[i]) continue;
      fds.insert(fds.end(), {its.bell.get(), its.arena.get(), its.end.get()});
    }
    const int fd = region.fd();
    for_guests([&](size_t, Guest& guest) {
      const int socket = guest.socket.get();
      send_message(socket, &region.geometry(), sizeof(Geometry), {&fd, 1}, patience());
      send_message(socket, invited.data(), invited.size(), {}, patience());
      for (size_t i = 0; i < fds.size(); i += kFdsPerMessage) {
        const size_t count = std::min(kFdsPerMessage, fds.size() - i);
        send_message(socket, "", 1, {fds.data() + i, count}, patience());
      }
    });
    for_guests([&](size_t, Guest& guest) {
      char mapped;
      receive_message(guest.socket.get(), &mapped, 1, patience());
      guest.here = true;
    });
  }

  Bootstrap finish(std::shared_ptr<SharedRegion> region) {
    std::vector<char> here;
    std::vector<Descriptors> all;
    for (Guest& guest : guests_) {
      here.push_back(guest.here);
      all.push_back(std::move(guest.its));
    }
    for_guests([&](size_t, Guest& guest) {
      send_message(guest.socket.get(), here.data(), here.size(), {}, patience());
    });
    if (!here[0]) return {};
    return joined(std::move(region), here, std::move(all));
  }

  // A guest that fails is left out; after its first message it must not fail silently.
  template <class Do>
  void for_guests(Do&& work) {
    for (size_t i = 1; i < guests_.size(); ++i) {
      if (!guests_[i].socket) continue;
      try {
        work(i, guests_[i]);
      } catch (const Error& error) {
        log(LogLevel::warn, "shm",
            fmt::format("rank {} does not share memory: {}", locals_[i], error.cause));
        guests_[i].socket = OwnedFd();
      }
    }
  }

  // ---- a member ----
  Bootstrap follow() {
    const std::string name = group_.store->get(key("door", locals_.front()), group_.deadline);
    OwnedFd socket;
    try {
      if (name.empty() || name[0] == '!')
        fail_set_up("the lowest rank of this host has none: " + name.substr(!name.empty()));
      prepare();
      socket = knock(name);
      give_own(socket.get());
      return join(socket.get());
    } catch (const Error& error) {
      // Before the socket closes, and so before the leader cleans up.
      group_.store->set(key("failed", group_.rank()), "1", group_.deadline);
      log(LogLevel::warn, "shm",
          fmt::format("this rank shares no memory with its host's ranks: {}", error.cause));
      return {};
    }
  }

  // Tries more than once: a rank that was stopped in between finds its connection closed.
  OwnedFd knock(const std::string& name) {
    constexpr int kTries = 3;
    const Greeting greeting{kPurpose, 0, group_.rank(), locals_.front()};
    for (int tried = 1;; ++tried) {
      OwnedFd socket = connect_to(name, group_.deadline);
      Status shaken = dial_handshake(socket.get(), group_.identity, greeting, group_.deadline);
      if (shaken) return socket;
      if (shaken.error().code != ErrorCode::network || tried == kTries) throw shaken.error();
    }
  }

  // The others then have this rank's reading end, which it does not need itself.
  void give_own(int socket) {
    const OwnedFd end = ends_->take_reading_end();
    const int fds[] = {group_.wait_set->doorbell_fd(), arena_fd(), end.get()};
    static_assert(std::size(fds) == kFdsPerRank);
    send_message(socket, "", 1, fds, group_.deadline);
  }

  Bootstrap join(int socket) {
    Geometry g;
    std::vector<OwnedFd> fds = receive_message(socket, &g, sizeof g, group_.deadline);
    if (fds.size() != 1) fail_set_up("the message with the shared memory's layout came without it");
    if (g.members != locals_.size() || g.channels != static_cast<uint32_t>(channels_) ||
        make_geometry(g.members, channels_, g.ring_bytes).ring_bytes != g.ring_bytes) {
      fail_set_up("the offered shared memory is laid out for another group");
    }
    std::shared_ptr<SharedRegion> region = SharedRegion::attach(std::move(fds[0]), g);
    std::vector<Descriptors> all = receive_descriptors(socket);
    send_message(socket, "", 1, {}, group_.deadline);
    std::vector<char> here(locals_.size());
    receive_message(socket, here.data(), here.size(), group_.deadline);
    return joined(std::move(region), here, std::move(all));
  }

  // By member; empty where no member was invited.
  std::vector<Descriptors> receive_descriptors(int socket) {
    static_assert(kFdsPerMessage % kFdsPerRank == 0, "those of a rank come together");
    std::vector<char> invited(locals_.size());
    receive_message(socket, invited.data(), invited.size(), group_.deadline);
    std::vector<Descriptors> all(locals_.size());
    std::vector<OwnedFd> batch;
    size_t next = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!invited[i]) continue;
      if (next == batch.size()) {
        char byte;
        batch = receive_message(socket, &byte, 1, group_.deadline);
        next = 0;
        if (batch.empty() || batch.size() % kFdsPerRank != 0)
          fail_set_up("a descriptor of a rank is missing");
      }
      all[i] = descriptors(batch.data() + next);
      next += kFdsPerRank;
    }
    return all;
  }

  // ---- both ----
  // Opens what this rank has, where there is room for what comes from all others. Throws
  // Error(system).
  void prepare() {
    make_room_for_descriptors((kFdsPerRank + 1) * locals_.size() + kOwnFds,
                              "shared memory with the ranks of this host");
    ends_ = std::make_unique<ProcessEnds>(*group_.wait_set, locals_.size());
  }

  // In the order in which they are sent.
  static Descriptors descriptors(OwnedFd* fds) {
    return {std::move(fds[0]), std::move(fds[1]), std::move(fds[2])};
  }

  // A rank without an arena sends its doorbell instead: mapping that as an arena is refused.
  int arena_fd() const {
    const Arena* arena = Arena::of_process();
    return arena ? arena->fd() : group_.wait_set->doorbell_fd();
  }

  Bootstrap joined(std::shared_ptr<SharedRegion> region, const std::vector<char>& here,
                   std::vector<Descriptors> all) {
    region->close_fd();
    Bootstrap bootstrap;
    bootstrap.region = std::move(region);
    bootstrap.process_ends = std::move(ends_);
    bootstrap.members.assign(static_cast<size_t>(group_.size()), -1);
    bootstrap.bells.resize(static_cast<size_t>(group_.size()));
    bootstrap.arenas.resize(static_cast<size_t>(group_.size()));
    for (size_t i = 0; i < locals_.size(); ++i) {
      const int rank = locals_[i];
      if (!here[i]) continue;
      bootstrap.members[rank] = static_cast<int>(i);
      if (!wanted(rank)) continue;
      bootstrap.bells[rank] = std::make_shared<Doorbell>(std::move(all[i].bell));
      bootstrap.arenas[rank] = PeerArena::of(std::move(all[i].arena));
      bootstrap.process_ends->watch(bootstrap.members[rank], std::move(all[i].end));
    }
    return bootstrap;
  }

  Deadline patience() const { return group_.deadline.within(kPatience); }

  const Group& group_;
  const std::vector<bool>& wanted_;
  const int channels_;
  std::vector<int> locals_;    // ranks with this host token, ascending; the index is the member
  std::vector<Guest> guests_;  // the leader's; [0] is itself
  std::unique_ptr<ProcessEnds> ends_;
  size_t guests_come_ = 0;
};

}  // namespace

Bootstrap bootstrap_region(const Group& group, const std::vector<bool>& wanted, int channels) {
  return RegionSetup(group, wanted, channels).run();
}

}  // namespace ringwood::shm
