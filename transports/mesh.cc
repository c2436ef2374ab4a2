#include "transports/mesh.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "transports/base/descriptors.h"
#include "transports/base/host.h"
#include "transports/base/log.h"
#include "transports/base/numa.h"
#include "transports/base/wait_set.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/meet/bootstrap_messages.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store.h"

namespace ringwood {
namespace {

// Several times the duration of a status query and its replies.
constexpr Duration kGroupErrorTime = std::chrono::seconds(1);
constexpr Duration kGroupErrorPause = std::chrono::milliseconds(2);
// That a rank opens for its port, its control thread and those who watch it, at most.
constexpr size_t kOwnFds = 16;

// The cores that this process may use.
std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) cores.push_back(c);
  return cores;
}

std::string token_of(const Options& options) {
  return host_token() + (options.host_id.empty() ? "" : " " + options.host_id);
}

RankIntroduction introduction_of(const Options& options) {
  const int node = options.numa_node >= 0 ? options.numa_node : own_numa_node();
  return {token_of(options),
          host_name(),
          own_cores(),
          node,
          options.in_flight,
          "",
          host_addresses(kMaxAddresses)};
}

RankIntroduction parse_introduction(const std::string& bytes) {
  RankIntroduction rank;
  if (!decode(bytes, rank))
    throw Error(ErrorCode::internal, "a rank's introduction in the store is damaged");
  return rank;
}

// Both ends of a pair must open the same number of links.
void check_in_flight(const std::vector<RankIntroduction>& all, int rank) {
  const auto other = std::find_if(all.begin(), all.end(), [&](const RankIntroduction& one) {
    return one.in_flight != all[0].in_flight;
  });
  if (other == all.end()) return;
  const auto where = static_cast<int>(other - all.begin());
  Error e(ErrorCode::mismatch,
          fmt::format("RINGWOOD_IN_FLIGHT is {} on rank 0 but {} on rank {}: set it alike on all "
                      "ranks",
                      all[0].in_flight, other->in_flight, where));
  e.rank = rank;
  e.peer = where;
  throw e;
}

int count_cores(const std::vector<RankIntroduction>& all, const std::string& token) {
  std::set<int> cores;
  for (const RankIntroduction& one : all)
    if (one.token == token) cores.insert(one.cores.begin(), one.cores.end());
  return std::max(1, static_cast<int>(cores.size()));
}

bool is_allowed(const TransportRow& row, const std::vector<std::string>& named) {
  return named.empty() || std::find(named.begin(), named.end(), row.name) != named.end();
}

// For each peer: its transport, and why none that is better.
void tell_choices(const Mesh& mesh, const Group& group) {
  for (int r = 0; r < mesh.size; ++r) {
    const bool far = mesh.hosts[r] != mesh.hosts[mesh.rank];
    std::string way = fmt::format("rank {} by {}", r, mesh.peers[r].transport);
    for (const TransportRow& row : transport_table()) {
      if (row.name == mesh.peers[r].transport) break;
      const char* why = "it made no link, and said why";
      if (row.shared_memory && far) why = "another host";
      if (row.one_process) why = "another process";
      if (!is_allowed(row, group.options->transports)) why = "RINGWOOD_TRANSPORTS excludes it";
      way += fmt::format("; not {}: {}", row.name, why);
    }
    if (r != mesh.rank) log(LogLevel::debug, "mesh", way);
  }
}

void open_links(Mesh& mesh, Group& group) {
  for (const TransportRow& row : transport_table()) {
    if (!is_allowed(row, group.options->transports)) continue;
    std::vector<bool> wanted(mesh.size);
    for (int r = 0; r < mesh.size; ++r) wanted[r] = r != mesh.rank && !mesh.peers[r].link[0];
    auto transport = row.make();
    const int channels = channels_for(mesh.in_flight);
    auto links = transport->connect(group, wanted, channels);
    bool used = false;
    for (int r = 0; r < mesh.size; ++r) {
      if (!links[0][r]) continue;
      for (int c = 0; c < channels; ++c) mesh.peers[r].link[c] = std::move(links[c][r]);
      mesh.peers[r].transport = row.name;
      used = true;
    }
    if (used) mesh.transports.push_back(std::move(transport));
  }
  for (int r = 0; r < mesh.size; ++r) {
    if (r == mesh.rank || mesh.peers[r].link[0]) continue;
    Error e(ErrorCode::unsupported,
            fmt::format("no transport reaches rank {}; allowed: {}", r,
                        group.options->transports.empty()
                            ? "all"
                            : fmt::format("{}", fmt::join(group.options->transports, ", "))));
    e.rank = mesh.rank;
    e.peer = r;
    throw e;
  }
  if (log_shows(LogLevel::debug)) tell_choices(mesh, group);
}

void check_names(const Options& options) {
  for (const std::string& name : options.transports) {
    std::string known;
    bool found = false;
    for (const TransportRow& row : transport_table()) {
      found |= name == row.name;
      known += (known.empty() ? "" : ", ") + std::string(row.name);
    }
    if (!found)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("no transport '{}'; there are: {}", name, known));
  }
}

// Equal tokens get equal numbers, in the order of their first ranks.
std::vector<int> numbered(const std::vector<std::string>& tokens) {
  std::vector<std::string> known;
  std::vector<int> numbers;
  for (const std::string& token : tokens) {
    const auto at = std::find(known.begin(), known.end(), token);
    numbers.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(token);
  }
  return numbers;
}

std::vector<int> nodes_of(const std::vector<RankIntroduction>& all, const std::vector<int>& hosts) {
  std::vector<std::string> names;
  for (const RankIntroduction& one : all) {
    const bool whole = std::any_of(all.begin(), all.end(), [&](const RankIntroduction& other) {
      return other.token == one.token && other.node < 0;
    });
    names.push_back(one.token + "\n" + (whole ? "" : std::to_string(one.node)));
  }
  std::vector<int> numbers = numbered(names);
  return numbers == hosts ? std::vector<int>{} : numbers;
}

// Ends the set-up of links at an error: it would wait for a dead rank until the deadline.
Control::Handlers also_raise(Mesh& mesh, Control::Handlers handlers) {
  handlers.failed = [&mesh, tell = std::move(handlers.failed)](const Error& error) {
    mesh.set_up_error = error;
    mesh.set_up_failed.store(true, std::memory_order_release);
    if (tell) tell(error);
  };
  return handlers;
}

// This rank gives up, and the others wait for it. On return they have the error, or cannot get it.
void tell_all(const Mesh& mesh, Error& error) {
  if (error.rank < 0) error.rank = mesh.rank;
  if (error.host.empty()) error.host = host_name();
  mesh.control->fail(error);
  const Deadline patience = Deadline::after(kGroupErrorTime);
  while (!mesh.set_up_failed && !patience.passed()) std::this_thread::sleep_for(kGroupErrorPause);
}

void tell_hosts_apart(std::vector<RankIntroduction>& all) {
  std::vector<std::string> tokens;
  std::vector<std::vector<std::string>> addresses;
  for (const RankIntroduction& one : all) {
    tokens.push_back(one.token);
    addresses.push_back(one.addresses);
  }
  tokens = told_apart(tokens, addresses);
  for (size_t rank = 0; rank < all.size(); ++rank) all[rank].token = tokens[rank];
}

// Where the ranks are.
void place(Mesh& mesh, const std::vector<RankIntroduction>& all) {
  for (const RankIntroduction& one : all) mesh.hosts.push_back(one.token);
  const std::string& token = mesh.hosts[static_cast<size_t>(mesh.rank)];
  mesh.ranks_on_this_host =
      static_cast<int>(std::count(mesh.hosts.begin(), mesh.hosts.end(), token));
  mesh.host_numbers = numbered(mesh.hosts);
  mesh.node_numbers = nodes_of(all, mesh.host_numbers);
  mesh.several_hosts = mesh.hosts != std::vector<std::string>(mesh.size, mesh.hosts[0]);
  mesh.cores_on_this_host = count_cores(all, token);
  mesh.cores_on_root_host = count_cores(all, all[0].token);
}

// Rank 0's.
LinkSettings settings_from(const std::string& text) try {
  return parse_link_settings(text);
} catch (Error& error) {
  error.cause = "rank 0 sets the links of all ranks to what they cannot be: " + error.cause;
  throw;
}

// Peers connect as soon as it is there, so there must be room for them before.
std::unique_ptr<Listener> open_listener(Mesh& mesh, const Bootstrap& bootstrap,
                                        const Options& options) {
  const int controlled = mesh.rank == 0 ? mesh.size - 1 : 1;
  make_room_for_descriptors(static_cast<size_t>(controlled) + kOwnFds, "the control connections");
  const AddressChoice choice =
      choose_local_address(options, bootstrap.master(), mesh.several_hosts);
  mesh.interface = choice.interface;
  std::vector<std::string> hosts = {choice.host};
  if (!choice.other_host.empty()) hosts.push_back(choice.other_host);
  return listen(bootstrap.identity(), hosts, options);
}

// All ranks' addresses, and rank 0's word on the links: it knows the hosts when it sends it. Opens
// this rank's listener in the exchange, so that the others hear of it if that fails.
std::vector<std::string> exchange_contacts(Mesh& mesh, Bootstrap& bootstrap, const Options& options,
                                           const LinkAgreement& links,
                                           const std::vector<RankIntroduction>& all,
                                           std::unique_ptr<Listener>& listener) {
  const auto make = [&] {
    listener = open_listener(mesh, bootstrap, options);
    RankContact mine{to_string(listener->addresses()), ""};
    if (mesh.rank == 0 && links.decide) {
      std::vector<std::string> told;
      for (const RankIntroduction& one : all) told.push_back(one.facts);
      mine.link_settings = print(links.decide(mesh, told));
    }
    return encode(mine);
  };
  std::vector<std::string> addresses;
  for (const std::string& bytes : bootstrap.exchange("addr", make)) {
    RankContact contact;
    if (!decode(bytes, contact))
      throw Error(ErrorCode::internal, "a rank's address in the store is damaged");
    if (addresses.empty()) mesh.link_settings = settings_from(contact.link_settings);
    addresses.push_back(std::move(contact.addresses));
  }
  return addresses;
}

void fill(Mesh& mesh, Bootstrap& bootstrap, const Options& options, Control::Handlers handlers,
          const LinkAgreement& links) {
  Group group;
  group.deadline = bootstrap.deadline();
  // Made before rank 0's announcement comes, as far as it can be: then others wait for it.
  RankIntroduction own = introduction_of(options);
  const auto introduce = [&](const std::string& announcement) {
    if (links.introduce) own.facts = links.introduce(announcement);
    return encode(own);
  };
  std::vector<RankIntroduction> all;
  for (const std::string& text : bootstrap.meet(introduce, mesh.announcement))
    all.push_back(parse_introduction(text));
  check_in_flight(all, mesh.rank);
  tell_hosts_apart(all);
  group.identity = bootstrap.identity();
  for (const uint8_t byte : group.identity.session) mesh.session += fmt::format("{:02x}", byte);
  place(mesh, all);
  std::vector<std::string> host_names;
  for (const RankIntroduction& one : all) host_names.push_back(one.host);
  group.hosts = mesh.hosts;
  group.store = &bootstrap.store();
  group.wait_set = mesh.wait_set.get();
  std::unique_ptr<Listener> listener;
  group.addresses = exchange_contacts(mesh, bootstrap, options, links, all, listener);
  group.listener = listener.get();
  check_families(group.addresses, host_names);
  for (const std::string& address : group.addresses)
    mesh.addresses.push_back(parse_net_addresses(address).front().host);
  const Options agreed = with(options, mesh.link_settings);
  group.options = &agreed;
  mesh.control = make_control(group, also_raise(mesh, std::move(handlers)));
  // All ranks have dialled rank 0, so all have read all keys.
  bootstrap.remove_keys();
  group.deadline = group.deadline.unless(mesh.set_up_failed);
  set_up(mesh, [&] { open_links(mesh, group); });
}

}  // namespace

Mesh::~Mesh() = default;

std::string Mesh::transports_in_use() const {
  std::string all;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && all.find(name) == std::string::npos)
      all += (all.empty() ? "" : "+") + name;
  };
  for (const Peer& peer : peers) {
    add(peer.transport);
    for (int track = 0; track < in_flight; ++track) {
      const Link* link = peer.link[collective_channel(track)].get();
      if (const char* fallback = link ? link->fallback() : nullptr) add(fallback);
    }
  }
  return all;
}

std::string Mesh::way_to(int peer) const {
  const Peer& to = peers[static_cast<size_t>(peer)];
  const Link* const link = to.link[collective_channel(0)].get();
  const std::vector<std::string> ports = link ? link->ports() : std::vector<std::string>{};
  if (ports.empty()) return to.transport == "tcp" ? "tcp over " + interface : to.transport;
  std::string numbers;
  for (const auto& transport : transports) {
    const std::vector<std::string> all = transport->ports();
    for (size_t rail = 0; rail < all.size(); ++rail)
      if (std::ranges::find(ports, all[rail]) != ports.end())
        numbers += fmt::format("{}{}", numbers.empty() ? "" : "+", rail);
  }
  return fmt::format("{} {} ({})", ports.size() == 1 ? "rail" : "rails", numbers,
                     fmt::join(ports, ", "));
}

void Mesh::arm() noexcept {
  for (auto& transport : transports) transport->arm();
}

void Mesh::disarm() noexcept {
  for (auto& transport : transports) transport->disarm();
}

void Mesh::look_for_ends() noexcept {
  for (auto& transport : transports) transport->look_for_ends();
}

void set_up(Mesh& mesh, const std::function<void()>& part) try { part(); } catch (Error& error) {
  if (!mesh.set_up_failed) tell_all(mesh, error);
  // The group error: a rank that waited in vain for one that gave up would name the wrong one.
  if (mesh.set_up_failed) throw Error(mesh.set_up_error);
  throw;
}

std::unique_ptr<Mesh> make_mesh(std::shared_ptr<Store> store, int rank, int size,
                                const Options& options, Control::Handlers handlers,
                                const std::string& announcement, const LinkAgreement& links) {
  check_names(options);
  auto mesh = std::make_unique<Mesh>();
  mesh->announcement = announcement;
  mesh->rank = rank;
  mesh->size = size;
  mesh->process = getpid();
  mesh->peers.resize(size);
  mesh->in_flight = options.in_flight;
  for (int c = 0; c < channels_for(mesh->in_flight); ++c) mesh->totals[c].resize(size);
  mesh->wait_set = std::make_unique<WaitSet>();
  if (size == 1) {
    mesh->hosts = {token_of(options)};
    mesh->host_numbers = {0};
    Group group;
    group.options = &options;
    group.identity.rank = 0;
    group.identity.size = 1;
    mesh->control = make_control(group, std::move(handlers));
    return mesh;
  }
  Bootstrap bootstrap(std::move(store), rank, size, options);
  try {
    fill(*mesh, bootstrap, options, std::move(handlers), links);
  } catch (...) {
    bootstrap.give_up();
    throw;
  }
  std::string peers;
  for (int r = 0; r < size; ++r)
    if (r != rank)
      peers += fmt::format("{}{} to {}", peers.empty() ? "" : ", ", mesh->peers[r].transport, r);
  log(LogLevel::info, "mesh", fmt::format("rank {} of {}: {}", rank, size, peers));
  return mesh;
}

}  // namespace ringwood
