#include "transports/mesh.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "transports/net.h"
#include "transports/numa.h"
#include "transports/store.h"
#include "transports/wait_set.h"

namespace ringwood {
namespace {

// The census and its answer, several times over.
constexpr Duration kVerdictTime = std::chrono::seconds(1);
constexpr Duration kVerdictPause = std::chrono::milliseconds(2);

std::string to_hex(const uint8_t* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

void from_hex(const std::string& text, size_t offset, uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const char* begin = text.data() + offset + 2 * i;
    if (offset + 2 * i + 2 > text.size() ||
        std::from_chars(begin, begin + 2, bytes[i], 16).ptr != begin + 2)
      throw Error(ErrorCode::internal, "the session in the store is damaged");
  }
}

// The cores that this process may use, as "0,1".
std::string own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::string text;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) text += (text.empty() ? "" : ",") + std::to_string(c);
  return text;
}

std::string token_of(const Options& options) {
  std::string id = options.host_id;
  std::replace(id.begin(), id.end(), '\n', ' ');
  return host_token() + (id.empty() ? "" : " " + id);
}

// What a rank says of itself: token, host name, cores, memory node, one a line.
struct Introduction {
  std::string token, host, cores, node;
};

std::string introduce(const Options& options) {
  const int node = options.numa_node >= 0 ? options.numa_node : own_numa_node();
  return fmt::format("{}\n{}\n{}\n{}", token_of(options), host_name(), own_cores(), node);
}

Introduction parse_introduction(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (lines.size() != 4)
    throw Error(ErrorCode::internal, "a rank's introduction in the store is damaged");
  return {lines[0], lines[1], lines[2], lines[3]};
}

int count_cores(const std::vector<Introduction>& all, const std::string& token) {
  std::vector<std::string> cores;
  for (const Introduction& one : all) {
    if (one.token != token) continue;
    for (size_t begin = 0; begin < one.cores.size();) {
      const size_t end = std::min(one.cores.find(',', begin), one.cores.size());
      cores.push_back(one.cores.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::sort(cores.begin(), cores.end());
  return std::max<int>(1, std::unique(cores.begin(), cores.end()) - cores.begin());
}

// Setting up a group: the store's keys, and what is known so far.
class Meeting {
 public:
  Meeting(std::shared_ptr<Store> store, int rank, int size, const Options& options)
      : root_(std::move(store)),
        rank_(rank),
        size_(size),
        options_(options),
        deadline_(Deadline::after(options.init_timeout)) {
    // Every rank joins once per generation, so equal quotients are one generation.
    generation_ = (root_->add("generation", 1) - 1) / size;
    store_ = prefix_store(root_, fmt::format("g{}/", generation_));
  }

  // A rank that gives up takes its ticket back, so that a second try meets the others again.
  void give_up() noexcept {
    try {
      root_->add("generation", -1);
    } catch (const std::exception&) {
    }
  }

  std::vector<std::string> exchange(const char* what, const std::string& mine) {
    store_->set(key(what, rank_), mine);
    std::vector<std::string> all(size_);
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) {
        all[r] = mine;
        continue;
      }
      try {
        all[r] = store_->get(key(what, r), deadline_);
      } catch (const Error& e) {
        if (e.code == ErrorCode::timeout) throw missing(what);
        throw;
      }
    }
    return all;
  }

  // The session, and what rank 0 has to say to all.
  Identity session(std::string& announcement) {
    Identity me;
    me.rank = rank_;
    me.size = size_;
    const bool secret = !options_.key_file.empty();
    if (secret) me.key = key_from_file(options_.key_file);
    if (rank_ == 0) {
      me.session = random_session();
      if (!secret) me.key = random_key();
      store_->set("session", to_hex(me.session.data(), me.session.size()) +
                                 (secret ? "" : to_hex(me.key.data(), me.key.size())) + " " +
                                 announcement);
      return me;
    }
    std::string text;
    try {
      text = store_->get("session", deadline_);
    } catch (const Error& e) {
      if (e.code != ErrorCode::timeout) throw;
      throw missing("host");
    }
    announcement = text.substr(std::min(text.find(' '), text.size() - 1) + 1);
    from_hex(text, 0, me.session.data(), me.session.size());
    if (!secret) from_hex(text, 2 * me.session.size(), me.key.data(), me.key.size());
    return me;
  }

  void remove_keys() {
    if (rank_ != 0) return;
    store_->remove("session");
    for (int r = 0; r < size_; ++r)
      for (const char* what : {"host", "addr"}) store_->remove(key(what, r));
  }

  Store& store() { return *store_; }
  Deadline deadline() const { return deadline_; }
  std::string master() const { return root_->master_address(); }

 private:
  static std::string key(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }

  Error missing(const char* what) {
    std::vector<int> absent;
    for (int r = 0; r < size_; ++r)
      if (r != rank_ && !store_->has(key(what, r))) absent.push_back(r);
    Error e(ErrorCode::timeout,
            fmt::format("{} of {} ranks did not come within {:.1f} s: missing rank{} {}; is the "
                        "world size right, and do "
                        "they run and reach the same store?",
                        absent.size(), size_,
                        std::chrono::duration<double>(options_.init_timeout).count(),
                        absent.size() == 1 ? "" : "s", fmt::join(absent, ", ")));
    e.rank = rank_;
    e.host = host_name();
    if (!absent.empty()) e.peer = absent.front();
    return e;
  }

  std::shared_ptr<Store> root_, store_;
  const int rank_, size_;
  const Options& options_;
  const Deadline deadline_;
  int64_t generation_ = 0;
};

void open_links(Mesh& mesh, Group& group) {
  for (const TransportRow& row : transport_table()) {
    const auto& names = group.options->transports;
    if (!names.empty() && std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    std::vector<bool> wanted(mesh.size);
    for (int r = 0; r < mesh.size; ++r) wanted[r] = r != mesh.rank && !mesh.peers[r].link[0];
    auto transport = row.make();
    auto links = transport->connect(group, wanted, kChannels);
    bool used = false;
    for (int r = 0; r < mesh.size; ++r) {
      if (!links[0][r]) continue;
      for (int c = 0; c < kChannels; ++c) mesh.peers[r].link[c] = std::move(links[c][r]);
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

// Equal tokens, equal number; in the order of their first ranks.
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

std::vector<int> nodes_of(const std::vector<Introduction>& all, const std::vector<int>& hosts) {
  std::vector<std::string> names;
  for (const Introduction& one : all) {
    const bool whole = std::any_of(all.begin(), all.end(), [&](const Introduction& other) {
      return other.token == one.token && other.node == "-1";
    });
    names.push_back(one.token + "\n" + (whole ? "" : one.node));
  }
  std::vector<int> numbers = numbered(names);
  return numbers == hosts ? std::vector<int>{} : numbers;
}

// What ends the set-up of links: a rank that died would be waited for until the deadline.
Control::Handlers also_raise(Mesh& mesh, Control::Handlers handlers) {
  handlers.failed = [&mesh, tell = std::move(handlers.failed)](const Error& error) {
    mesh.set_up_error = error;
    mesh.set_up_failed.store(true, std::memory_order_release);
    if (tell) tell(error);
  };
  return handlers;
}

// This rank gives up. The others wait for it; on return they have been told, or cannot be.
void tell_all(const Mesh& mesh, Error& error) {
  if (error.rank < 0) error.rank = mesh.rank;
  if (error.host.empty()) error.host = host_name();
  mesh.control->fail(error);
  const Deadline patience = Deadline::after(kVerdictTime);
  while (!mesh.set_up_failed && !patience.passed()) std::this_thread::sleep_for(kVerdictPause);
}

void fill(Mesh& mesh, Meeting& meeting, const Options& options, Control::Handlers handlers) {
  Group group;
  group.options = &options;
  group.deadline = meeting.deadline();
  group.identity = meeting.session(mesh.announcement);
  std::vector<Introduction> all;
  for (const std::string& text : meeting.exchange("host", introduce(options)))
    all.push_back(parse_introduction(text));
  const std::string token = all[mesh.rank].token;
  std::vector<std::string> host_names;
  for (const Introduction& one : all) {
    mesh.hosts.push_back(one.token);
    host_names.push_back(one.host);
  }
  mesh.ranks_on_this_host =
      static_cast<int>(std::count(mesh.hosts.begin(), mesh.hosts.end(), token));
  mesh.host_numbers = numbered(mesh.hosts);
  mesh.node_numbers = nodes_of(all, mesh.host_numbers);
  mesh.several_hosts = mesh.hosts != std::vector<std::string>(mesh.size, mesh.hosts[0]);
  mesh.cores_on_this_host = count_cores(all, token);
  mesh.cores_on_root_host = count_cores(all, all[0].token);
  group.hosts = mesh.hosts;
  group.store = &meeting.store();
  group.wait_set = mesh.wait_set.get();
  const AddressChoice choice = choose_local_address(options, meeting.master(), mesh.several_hosts);
  std::vector<std::string> own_hosts = {choice.host};
  if (!choice.other_host.empty()) own_hosts.push_back(choice.other_host);
  auto listener = listen(group.identity, own_hosts, options);
  group.listener = listener.get();
  group.addresses = meeting.exchange("addr", to_string(listener->addresses()));
  check_families(group.addresses, host_names);
  mesh.control = make_control(group, also_raise(mesh, std::move(handlers)));
  // Everyone has dialled rank 0, so everyone has read all keys.
  meeting.remove_keys();
  group.deadline = group.deadline.unless(mesh.set_up_failed);
  try {
    open_links(mesh, group);
  } catch (Error& error) {
    if (!mesh.set_up_failed) tell_all(mesh, error);
    // The group's word: who waits in vain for one who gave up would name the wrong one.
    if (mesh.set_up_failed) throw Error(mesh.set_up_error);
    throw;
  }
}

}  // namespace

Mesh::~Mesh() = default;

std::string Mesh::ways(int channel) const {
  std::string all;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && all.find(name) == std::string::npos)
      all += (all.empty() ? "" : "+") + name;
  };
  for (const Peer& peer : peers) {
    add(peer.transport);
    const Link* link = peer.link[channel].get();
    if (const char* detour = link ? link->detour() : nullptr) add(detour);
  }
  return all;
}

void Mesh::arm() noexcept {
  for (auto& transport : transports) transport->arm();
}

void Mesh::disarm() noexcept {
  for (auto& transport : transports) transport->disarm();
}

std::unique_ptr<Mesh> make_mesh(std::shared_ptr<Store> store, int rank, int size,
                                const Options& options, Control::Handlers handlers,
                                const std::string& announcement) {
  check_names(options);
  auto mesh = std::make_unique<Mesh>();
  mesh->announcement = announcement;
  mesh->rank = rank;
  mesh->size = size;
  mesh->process = getpid();
  mesh->peers.resize(size);
  mesh->totals.resize(size);
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
  Meeting meeting(std::move(store), rank, size, options);
  try {
    fill(*mesh, meeting, options, std::move(handlers));
  } catch (...) {
    meeting.give_up();
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
