#include "transports/verbs/verbs.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "transports/base/descriptors.h"
#include "transports/base/log.h"
#include "transports/base/numa.h"
#include "transports/base/wait_set.h"
#include "transports/pairs.h"
#include "transports/verbs/rail/addresses.h"
#include "transports/verbs/rail/open_rails.h"
#include "transports/verbs/setup.h"

namespace ringwood {
namespace {

using verbs::LinkSetup;
using verbs::Rail;
using verbs::RankAddress;
using verbs::Rings;

// A hundred times what a working path needs, and a short wait for one that does not work.
constexpr Duration kProbeTime = std::chrono::seconds(10);
// For all addresses together that the network does not know at once; each try takes the kernel
// about a second.
constexpr Duration kResolveTime = std::chrono::seconds(5);
constexpr Duration kLongPause = std::chrono::milliseconds(2);

// A process makes many groups; the same reason is logged once.
void tell_once(LogLevel level, const std::string& text) {
  static std::mutex mutex;
  static auto* told = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (told->insert(text).second) log(level, "verbs", text);
}

Rings make_rings(size_t links, size_t ring_bytes) {
  Rings rings{nullptr, ring_bytes, links, {}};
  const size_t bytes = rings.bytes();
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    rings.failure = fmt::format("no memory for {} rings of {} bytes (RINGWOOD_VERBS_RING_BYTES)",
                                2 * links, ring_bytes);
    return rings;
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  // A child that wrote there would leave the parent with other pages than those the device writes
  // to.
  ::madvise(memory, bytes, MADV_DONTFORK);
  rings.memory = {static_cast<std::byte*>(memory), [bytes](std::byte* at) { ::munmap(at, bytes); }};
  return rings;
}

class Verbs final : public Transport {
 public:
  LinkTable connect(const Group& group, const std::vector<bool>& wanted, int channels) override {
    LinkTable links = no_links(group, channels);
    if (std::count(wanted.begin(), wanted.end(), true) == 0) return links;
    const RankAddress mine = prepare(*group.options);
    const std::vector<RankAddress> addresses = verbs::exchange_addresses(group, wanted, mine);
    std::vector<bool> reached = wanted;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (!wanted[peer]) continue;
      reached[peer] = !pair_with(group, peer, addresses).empty();
      if (!reached[peer] && !mine.rails.empty())
        tell_once(LogLevel::warn, fmt::format("rank {} is not reached: {}", peer,
                                              addresses[peer].rails.empty()
                                                  ? addresses[peer].reason
                                                  : "none of its rails fits one of ours (link "
                                                    "layers or address families differ)"));
    }
    make_links(group, addresses, reached, channels, links);
    return links;
  }

  void arm() noexcept override {
    for (auto& rail : rails_) rail->arm();
    look_->fetch_add(1, std::memory_order_release);
  }

  std::vector<std::string> ports() const override {
    std::vector<std::string> names;
    for (const auto& rail : rails_) names.push_back(rail->address().name);
    return names;
  }

 private:
  using Links = std::vector<std::vector<std::unique_ptr<LinkSetup>>>;  // [peer][channel]

  // Opens the rails; if there are none, the address contains the reason.
  RankAddress prepare(const Options& options) {
    RankAddress address;
    address.node = options.numa_node >= 0 ? options.numa_node : own_numa_node();
    if (options.verbs.disable) {
      address.reason = "RINGWOOD_VERBS_DISABLE=1";
      return address;
    }
    bool worth_telling = false;
    rails_ = verbs::open_rails(options.verbs, address.reason, worth_telling);
    const auto& asked = options.transports;
    const bool named = std::find(asked.begin(), asked.end(), "verbs") != asked.end();
    if (rails_.empty())
      tell_once(worth_telling || named ? LogLevel::warn : LogLevel::info,
                "not used between hosts: " + address.reason);
    for (auto& rail : rails_) {
      rail->memory().register_arena(options.verbs.registered_bytes);
      address.rails.push_back(rail->address());
    }
    return address;
  }

  // Registers memory only for links that will be connected, since it is pinned. A failure is
  // reported to the peers, which wait.
  void pin(const Group& group, size_t links, const std::set<int>& used) {
    rings_ = make_rings(links, group.options->verbs.ring_bytes);
    for (const int rail : used) {
      if (!rings_.failure.empty()) break;
      rails_[rail]->memory().register_rings(rings_.memory, rings_.bytes(), rings_.failure);
    }
    if (!rings_.failure.empty())
      tell_once(LogLevel::warn, "not used between hosts: " + rings_.failure);
  }

  // Pairs of (ours, theirs), the same from both ends.
  static std::vector<std::pair<int, int>> pair_with(const Group& group, int peer,
                                                    const std::vector<RankAddress>& addresses) {
    const int low = std::min(group.rank(), peer), high = std::max(group.rank(), peer);
    const auto before = [&](int rank) {  // the number of lower ranks on its host
      const auto first = group.hosts.begin();
      return static_cast<int>(std::count(first, first + rank, group.hosts[rank]));
    };
    auto pairs = verbs::pair_rails(addresses[low], addresses[high]);
    verbs::arrange(pairs, addresses[low], addresses[high], before(low) + before(high));
    if (group.rank() > peer)
      for (auto& [a, b] : pairs) std::swap(a, b);
    return pairs;
  }

  void make_links(const Group& group, const std::vector<RankAddress>& addresses,
                  const std::vector<bool>& reached, int channels, LinkTable& links) {
    const auto peers = std::count(reached.begin(), reached.end(), true);
    if (peers == 0) return;
    make_room_for_descriptors(static_cast<size_t>(peers * channels), "the connections of verbs");
    std::vector<int> counts(reached.begin(), reached.end());
    for (int& count : counts) count *= channels;
    auto fds = connect_pairs(group, counts, "verbs",
                             [](int, int index) { return static_cast<uint16_t>(index); });
    std::vector<std::vector<std::pair<int, int>>> pairs(group.size());
    std::set<int> used;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (reached[peer]) pairs[peer] = pair_with(group, peer, addresses);
      for (const auto& [ours, theirs] : pairs[peer]) used.insert(ours);
    }
    pin(group, static_cast<size_t>(peers * channels), used);
    Links fresh(group.size());
    size_t number = 0;
    for (int peer = 0; peer < group.size(); ++peer) {
      for (OwnedFd& fd : fds[peer]) {
        std::vector<verbs::RailPair> rails;
        for (const auto& pair : pairs[peer])
          rails.push_back({rails_[pair.first], addresses[peer].rails[pair.second],
                           verbs::far_ends(addresses[group.rank()], addresses[peer], pair)});
        fresh[peer].push_back(std::make_unique<LinkSetup>(group, peer, std::move(fd),
                                                          std::move(rails), rings_, number++));
      }
    }
    agree(group, fresh);
    keep(group, fresh, links);
  }

  // Each step is done for all links, in the order of the ranks, before the next step of any: so no
  // rank waits for one that waits for others.
  static void agree(const Group& group, Links& fresh) {
    const auto each = [&](auto&& step) {
      for (auto& peer : fresh)
        for (auto& link : peer) step(*link);
    };
    each([](LinkSetup& link) { link.greet(); });
    const Deadline resolved = group.deadline.within(kResolveTime);
    each([&](LinkSetup& link) { link.connect(group.deadline, resolved); });
    both_agree(group, each);
    each([](LinkSetup& link) { link.begin_probe(); });
    const Deadline deadline = group.deadline.within(kProbeTime);
    for (Duration pause = std::chrono::microseconds(10);; pause = std::min(2 * pause, kLongPause)) {
      bool over = true;
      each([&](LinkSetup& link) { over = link.probe_ended() && over; });
      if (over || deadline.passed()) break;
      std::this_thread::sleep_for(pause);  // a software device needs the core
    }
    each([](LinkSetup& link) { link.end_probe(); });
    both_agree(group, each);
  }

  template <class Each>
  static void both_agree(const Group& group, Each& each) {
    each([](LinkSetup& link) { link.tell_result(); });
    each([&](LinkSetup& link) { link.take_result(group.deadline); });
  }

  // Keeps all links of a peer or none, at both ends.
  void keep(const Group& group, Links& fresh, LinkTable& links) {
    bool used = false;
    for (int peer = 0; peer < group.size(); ++peer) {
      std::string failure;
      for (auto& link : fresh[peer])
        if (failure.empty()) failure = link->failure();
      if (!failure.empty() && rings_.failure.empty())
        tell_once(LogLevel::warn, fmt::format("rank {} is not reached, other transports are tried: "
                                              "{}",
                                              peer, failure));
      for (size_t channel = 0; failure.empty() && channel < fresh[peer].size(); ++channel) {
        links[channel][peer] = fresh[peer][channel]->finish(*group.wait_set, look_);
        used = true;
      }
    }
    if (!used) return;
    for (auto& rail : rails_) rail->watch(*group.wait_set);
  }

  std::vector<std::shared_ptr<Rail>> rails_;
  Rings rings_;
  // Before the next sleep the links read their fallback connections.
  const std::shared_ptr<std::atomic<unsigned>> look_ = std::make_shared<std::atomic<unsigned>>(1);
};

}  // namespace

std::unique_ptr<Transport> make_verbs() { return std::make_unique<Verbs>(); }

}  // namespace ringwood
