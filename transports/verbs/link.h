// A link over queue pairs: one or more paths over one or more rails, and a TCP connection (the
// wire) for what must be agreed and as the path of last resort.
//
// When a path fails at either end, both close it: the queue pair is moved to its error state, and
// once everything that was posted to it has come back, the peer is told over the wire. From then on
// neither can write over it, and each writes again over another what was not known to have landed.
// Nothing is written again earlier: a late write could hit a place that holds newer data. Then they
// may open it again (reopen.h).
//
// Large messages (kLendFrom, link.cc) that lie in the arena, or are adopted, are lent to the device
// where they lie. Their pieces have the same places in the peer's ring as if they had been copied.
// Such a message is sent when every piece is acknowledged; until then it may be read again, for
// another path or for the wire. abort() therefore stops the queue pairs if anything is lent, before
// it returns: the user may write to that memory at once, and the peer must not get the new bytes as
// the message. A peer that has read everything and leaves says so over the wire, because the
// acknowledgements of what it read may have been lost with its queue pairs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/host_watch.h"
#include "transports/link.h"
#include "transports/link_parts.h"
#include "transports/verbs/path/path.h"
#include "transports/verbs/path/reopen.h"
#include "transports/verbs/ring/incoming.h"
#include "transports/verbs/ring/outgoing.h"
#include "transports/verbs/wire.h"

namespace ringwood::verbs {

inline constexpr const char* kUnreadable = "its completion queue cannot be read";

// Memory for all rings of a transport; registered as a whole.
struct Rings {
  std::shared_ptr<std::byte> memory;
  size_t ring_bytes = 0, links = 0;
  std::string failure;  // why they cannot be used; the greeting tells the peers
  size_t bytes() const { return 2 * links * ring_bytes + kProbeBytes; }
  std::byte* scrap() const { return memory.get() + 2 * links * ring_bytes; }  // nobody reads it
  Ring outgoing(size_t link) const { return {memory.get() + 2 * link * ring_bytes, ring_bytes}; }
  Ring incoming(size_t link) const { return {outgoing(link).memory + ring_bytes, ring_bytes}; }
};

// The rails of a link: ours, and the peer's that goes with it.
struct RailPair {
  std::shared_ptr<Rail> rail;
  RailOffer peer;
  int far = 0;  // far_ends()
};

// What a side tells the other before it connects. print/parse: bounded, strict.
struct Hello {
  std::string failure;
  uint64_t ring_bytes = 0, ring = 0;  // where the peer writes
  int traffic_class = 0, service_level = 0;
  std::vector<uint32_t> keys;  // by rail pair
  std::vector<PathEnd> paths;  // rail pair by rail pair
};
std::string print(const Hello& hello);
Hello parse_hello(std::string_view text);  // throws Error(network)

class VerbsLink final : public Link {
 public:
  VerbsLink(const Group& group, int peer, OwnedFd wire, std::vector<RailPair> rails,
            const Rings& rings, size_t number);
  ~VerbsLink() override;

  // Set-up, in this order: connect() waits for the lower rank's greet(), or the higher's connect().
  // And with a verdict of both after connect() and after end_probe(): what is
  // sent before the peer's queue pair is ready is sent again only after a timeout of seconds.
  void greet();
  // `patience`: for addresses that the network does not know at once.
  void connect(Deadline deadline, Deadline patience);
  void begin_probe();
  bool probe_ended();
  void end_probe();
  void tell_verdict();
  void take_verdict(Deadline deadline);
  const std::string& failure() const { return failure_; }
  // The end of set-up. When `look` changes, somebody is going to sleep.
  void use(WaitSet& wait_set, std::shared_ptr<const std::atomic<unsigned>> look);

  Status post_send(const void* data, size_t bytes) override;
  Status post_recv(void* data, size_t bytes) override;
  Status post_incoming(size_t bytes) override;
  std::span<const std::byte> incoming() override;
  void consume(size_t bytes) override;
  Status poll(Completions& completions) override;
  void abort() noexcept override;
  const char* detour() const override { return detour_ ? "tcp" : nullptr; }

 private:
  struct Lane {  // a rail pair
    std::shared_ptr<Rail> rail;
    RailOffer peer;
    ibv_cq* queue = nullptr;
    uint32_t key = 0;  // of the peer's memory
    int far = 0;
    bool unreadable = false;  // the queue
  };
  struct End {  // a path and what the peer said of it
    std::unique_ptr<Path> path;
    size_t lane = 0;
    // Closed by us, by the peer, and what was not acknowledged is written again over others.
    bool told = false, peer_closed = false, replayed = false;
    bool carrying = true;  // it may have data that is not acknowledged
    // To open it again.
    std::unique_ptr<Path> fresh;  // offered to the peer
    bool probe_arrived = false, probe_landed = false;
    uint64_t peer_scrap = 0;
    unsigned returns = 0;  // of the rail, when we looked last
    Attempts attempts;
  };

  bool unusable(size_t bytes) const { return gate_.aborted() || fault_ || bytes == 0; }
  Status why(size_t bytes) const;
  Status move();
  bool lend(const void* data, size_t bytes);
  // path/path_set.cc
  void read_queues();
  void read(size_t lane, const ibv_wc& completion);
  void arrived(uint32_t immediate, uint32_t bytes);
  void fail_path(End& end, const std::string& why);
  void watch_paths();
  void end_life(End& end);
  void destroy(Path& path);
  void replay(size_t path);
  int choose_path();
  bool can_write();
  bool write(Piece& piece);
  uint32_t own_key(Piece& piece, Rail& rail);
  bool landed(const Piece& piece) const;
  void write_pieces();
  void give_credit();
  void read_wire();
  bool take_frame(const Frame& frame, std::span<const std::byte> payload);
  void drain() noexcept;
  bool all_quiet();
  Status peer_is_gone();
  void end_lending();
  // path/reopener.cc
  std::string path_name(const End& end) const;
  void reopen_paths();
  void tell(FrameType type, const End& end, std::string_view text = {});
  std::string offer_of(const Path& path) const;
  std::unique_ptr<Path> fresh_path(const End& end, std::string& why);
  bool connect_fresh(Path& path, const PathOffer& theirs, End& end, std::string& why);
  bool replace_path(End& end, std::unique_ptr<Path> fresh);
  void offer_path(End& end);
  bool take_reopening(const Frame& frame, std::span<const std::byte> payload);
  bool take_offer(End& end, std::span<const std::byte> payload);
  bool take_answer(End& end, std::span<const std::byte> payload);
  bool take_refusal(End& end, std::span<const std::byte> payload);
  void send_probe(End& end);
  bool take_probe(End& end, bool receive, uint64_t number);
  void not_reopened(End& end, const std::string& why);
  // setup.cc
  void make_paths();
  void tell_ends();
  void agree(const Hello& theirs);
  void connect_paths(const Hello& theirs, Deadline patience);
  PathSetting setting() const;

  const Options& options_;
  const int rank_, peer_, process_;
  const uint64_t ring_bytes_;
  std::byte* const ring_;  // where the peer writes
  std::byte* const scrap_;
  AbortGate gate_;
  LinkFault fault_;
  Wire wire_;
  HostWatch watch_;                                    // of the wire
  std::shared_ptr<const std::atomic<unsigned>> look_;  // changes before every sleep
  unsigned looked_ = 0;
  unsigned polls_ = 0;
  std::vector<Lane> lanes_;
  std::vector<End> ends_;
  Outgoing out_;
  Incoming in_;
  uint64_t peer_ring_ = 0;
  size_t next_path_ = 0;
  Arena* arena_ = nullptr;            // that messages are lent from; null: all are copied
  std::atomic<bool> lending_{false};  // a device may be reading the user's memory
  size_t again_ = 0;                  // pieces that have to be written again
  int traffic_class_ = 0, service_level_ = 0;
  bool on_wire_ = false;
  std::atomic<bool> detour_{false};  // a piece has travelled over the wire
  bool in_use_ = false;
  // Set-up only.
  std::string failure_;
  std::vector<std::byte> probe_out_, probe_in_;
  size_t probes_ = 0;      // messages that do not count
  int peer_verdict_ = -1;  // 0 or 1 once it has told
};

}  // namespace ringwood::verbs
