#include "collectives/nccl/unique_id.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "collectives/nccl/errors.h"
#include "transports/base/clock.h"
#include "transports/base/fork_guard.h"
#include "transports/bootstrap/identity.h"
#include "transports/bootstrap/net.h"

namespace ringwood::nccl {
namespace {

constexpr char kMagic[4] = {'R', 'W', 'N', 'C'};
constexpr uint8_t kVersion = 1;
enum class Server : uint8_t { maker, rank_0 };

struct Parts {
  char magic[4];
  uint8_t version;
  Server server;
  uint8_t port[2];  // high, low
  std::array<uint8_t, 16> session;
  char host[104];  // ends with a 0
};
static_assert(sizeof(Parts) == sizeof(ncclUniqueId));

struct Served {
  int pid = 0;
  std::shared_ptr<Store> store;
};
struct Stores {
  std::mutex mutex;
  std::map<std::string, Served> of_sessions;
  std::map<std::string, std::weak_ptr<Store>> of_rank_0;  // by address
};
// Never destroyed: the threads that serve end with the process.
Stores& stores() {
  static auto* const all = new Stores;
  return *all;
}

Parts parts_of(const ncclUniqueId& id) {
  Parts parts;
  std::memcpy(&parts, &id, sizeof parts);
  if (!std::equal(std::begin(kMagic), std::end(kMagic), parts.magic) ||
      parts.host[sizeof parts.host - 1] != 0)
    refuse("the id is not one that ncclGetUniqueId() of this library has made");
  if (parts.version != kVersion)
    refuse(fmt::format("the id is of version {} of this library's ids, and this is version {}",
                       parts.version, kVersion));
  return parts;
}

ncclUniqueId id_of(Server server, const NetAddress& at, const std::array<uint8_t, 16>& session) {
  Parts parts{};
  std::copy(std::begin(kMagic), std::end(kMagic), parts.magic);
  parts.version = kVersion;
  parts.server = server;
  parts.port[0] = static_cast<uint8_t>(at.port >> 8);
  parts.port[1] = static_cast<uint8_t>(at.port);
  parts.session = session;
  if (at.host.size() >= sizeof parts.host)
    refuse(fmt::format("the name of the host, {}, is too long for an id", at.host));
  std::copy(at.host.begin(), at.host.end(), parts.host);
  ncclUniqueId id;
  std::memcpy(&id, &parts, sizeof id);
  return id;
}

std::string text_of(const std::array<uint8_t, 16>& session) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : session) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

// As other hosts reach it; loopback where there is nothing else.
std::string own_host(const Options& options) {
  try {
    return choose_local_address(options, "", true).host;
  } catch (const Error&) {
    return choose_local_address(options, "", false).host;
  }
}

std::shared_ptr<Store> served_by_rank_0(const NetAddress& at, const Options& options) {
  Stores& all = stores();
  const std::lock_guard lock(all.mutex);
  auto& known = all.of_rank_0[to_string(at)];
  std::shared_ptr<Store> store = known.lock();
  if (!store)
    known = store =
        tcp_store(at.host, at.port, true, Deadline::after(options.init_timeout), options);
  return store;
}

std::shared_ptr<Store> served_here(const std::string& session) {
  Stores& all = stores();
  const std::lock_guard lock(all.mutex);
  const auto at = all.of_sessions.find(session);
  return at == all.of_sessions.end() || forked_since(at->second.pid) ? nullptr : at->second.store;
}

}  // namespace

ncclUniqueId make_id(const Options& options) {
  if (const char* const given = std::getenv("NCCL_COMM_ID"); given && *given)
    return id_of(Server::rank_0, parse_net_address(given), {});
  const std::array<uint8_t, 16> session = random_session();
  const std::string host = own_host(options);
  auto store = tcp_store(host, 0, true, Deadline::after(options.init_timeout), options);
  const ncclUniqueId id = id_of(Server::maker, {host, tcp_store_port(*store)}, session);
  Stores& all = stores();
  const std::lock_guard lock(all.mutex);
  all.of_sessions[text_of(session)] = {current_pid(), std::move(store)};
  return id;
}

std::shared_ptr<Store> store_of(const ncclUniqueId& id, int rank, const Options& options) {
  const Parts parts = parts_of(id);
  const NetAddress at{parts.host, parts.port[0] << 8 | parts.port[1]};
  const std::string session = text_of(parts.session);
  std::shared_ptr<Store> store;
  if (parts.server == Server::maker)
    store = served_here(session);
  else if (rank == 0)
    store = served_by_rank_0(at, options);
  if (!store)
    store = tcp_store(at.host, at.port, false, Deadline::after(options.init_timeout), options);
  return prefix_store(std::move(store), "nccl/" + session + "/");
}

void forget(const ncclUniqueId& id) {
  const std::string session = session_of(id);
  Stores& all = stores();
  const std::lock_guard lock(all.mutex);
  const auto at = all.of_sessions.find(session);
  if (at != all.of_sessions.end() && !forked_since(at->second.pid)) all.of_sessions.erase(at);
}

std::string session_of(const ncclUniqueId& id) { return text_of(parts_of(id).session); }

}  // namespace ringwood::nccl
