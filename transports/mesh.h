// All links of a rank: to every peer over the best transport that reaches it; and which ranks share
// this host.
//
// make_mesh() is collective over the store's ranks. They bootstrap a session (bootstrap.h); then it
// exchanges host tokens and addresses, opens the listener of the control connection, connects the
// transports in the order of their table, and removes every key that it set. Throws Error naming
// the ranks that did not come. If a rank has no interface or no free port, or cannot say what it
// has to, all ranks throw its error. `announcement` is a text that rank 0 sends to all. Before the
// links are made rank 0 may set the links of all ranks (LinkAgreement): that travels in messages
// that are sent anyway, and costs no further round.
//
// Thread safety: as Link; arm(), disarm() and look_for_ends() are called by the one thread that
// sleeps.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transports/base/knobs/link_knobs.h"
#include "transports/channels.h"
#include "transports/control/control.h"
#include "transports/transport.h"

namespace ringwood {

struct Peer {
  std::string transport;                                 // "shm"; "" for the rank itself
  std::array<std::unique_ptr<Link>, kMaxChannels> link;  // null from channels_for() on
};

class Mesh final {
 public:
  ~Mesh();
  int rank = 0, size = 1;
  // Set by the control connection; the error is written once, before the flag.
  std::atomic<bool> set_up_failed{false};
  Error set_up_error;
  // Declared in this order because links need their transports, and transports the wait set; the
  // control thread ends before all of them.
  std::unique_ptr<WaitSet> wait_set;
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Peer> peers;  // by rank
  // By channel and rank: what the link of a collective reported last; used by its executor.
  std::array<std::vector<Completions>, kMaxChannels> totals;
  std::vector<std::string> hosts;  // host token by rank
  std::vector<int> host_numbers;   // by rank: the host, numbered from 0 in the order of first ranks
  // By rank: its memory node, numbered likewise; no two hosts share a number. Empty: each host
  // counts as one node, because it has only one or because a rank of it may run on several.
  std::vector<int> node_numbers;
  std::vector<std::string> addresses;  // by rank: the one at which it is reached over sockets
  std::string interface;               // that has this rank's
  std::string announcement;            // rank 0's, on all ranks
  LinkSettings link_settings;          // rank 0's, on all ranks: this rank's links have them
  std::string session;                 // of this group alone, on all its ranks; for people
  int ranks_on_this_host = 1;
  int cores_on_root_host = 1;  // likewise on rank 0's host: equal on all ranks
  int cores_on_this_host = 1;  // that the ranks of this host may run on, together
  bool several_hosts = false;
  int in_flight = 1;  // collectives that may be under way at once: equal on all ranks
  int process = 0;    // pid at creation
  std::unique_ptr<Control> control;

  // The transports in use, with the fallbacks of the collectives' links: "shm", "verbs+tcp".
  std::string transports_in_use() const;
  // What the link to a peer goes over, of this rank's: "rail 1 (mlx5_1/1)", numbered as the
  // transport has its ports, "tcp over eth0", "shm"; "" to itself.
  std::string way_to(int peer) const;
  void arm() noexcept;
  void disarm() noexcept;
  void look_for_ends() noexcept;
};

// How rank 0 sets the links of all ranks, before there are any. Without it they are as each rank's
// options say.
struct LinkAgreement {
  // What this rank tells rank 0, of whose announcement it depends whether it is wanted: at most
  // kMaxRankFacts bytes (bootstrap_messages.h).
  std::function<std::string(const std::string& announcement)> introduce;
  // Rank 0's. `mesh` has no links yet, but knows where all ranks are; `told`: of all, by rank, and
  // anybody's bytes.
  std::function<LinkSettings(const Mesh& mesh, const std::vector<std::string>& told)> decide;
};

std::unique_ptr<Mesh> make_mesh(std::shared_ptr<Store> store, int rank, int size,
                                const Options& options, Control::Handlers handlers,
                                const std::string& announcement = "",
                                const LinkAgreement& links = {});

// Runs `part` of the set-up after make_mesh(). If it throws Error, or the group has ended
// meanwhile, all ranks are told, and the group's error is thrown.
void set_up(Mesh& mesh, const std::function<void()>& part);

}  // namespace ringwood
