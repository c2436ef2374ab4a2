#include "transports/pairs.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "transports/base/log.h"
#include "transports/base/result.h"
#include "transports/base/thread.h"

namespace ringwood {
namespace {

std::string connections(int count) {
  return fmt::format("{} connection{}", count, count == 1 ? "" : "s");
}

OwnedFd owned(Result<int> fd, int peer, const char* transport) {
  if (fd) return OwnedFd(*fd);
  Error error = std::move(fd.error());
  error.peer = peer;
  error.transport = transport;
  throw error;
}

}  // namespace

std::vector<NetAddress> addresses_of(const Group& group, int peer) {
  const auto own = static_cast<size_t>(group.rank());
  return addresses_to_dial(own < group.addresses.size() ? group.addresses[own] : "",
                           group.addresses.at(peer));
}

// Listeners accept in the background, so no circular wait is possible. A few peers at a time,
// nearest first: otherwise all ranks would begin with rank 0.
std::vector<std::vector<OwnedFd>> connect_pairs(
    const Group& group, const std::vector<int>& counts, const char* transport,
    const std::function<uint16_t(int peer, int index)>& channel) {
  const Purpose purpose = purpose_of(transport);
  std::vector<std::vector<OwnedFd>> fds(group.size());
  std::atomic<int> next{group.rank()};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (int peer; (peer = next.fetch_sub(1) - 1) >= 0;) {
      if (counts[peer] == 0) continue;
      try {
        const std::vector<NetAddress> addresses = addresses_of(group, peer);
        if (log_shows(LogLevel::debug))
          log(LogLevel::debug, transport,
              fmt::format("opens {} to rank {} at {}", connections(counts[peer]), peer,
                          to_string(addresses)));
        for (int i = 0; i < counts[peer]; ++i) {
          const Greeting hello{purpose, channel(peer, i), group.rank(), peer};
          fds[peer].push_back(
              owned(dial(addresses, group.identity, hello, group.deadline), peer, transport));
        }
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = 0;
      }
    }
  };
  const auto dials = std::count_if(counts.begin(), counts.begin() + group.rank(),
                                   [](int count) { return count > 0; });
  std::vector<std::thread> helpers;
  try {
    for (long i = 1; i < std::min<long>(dials, 8); ++i)
      helpers.push_back(start_thread("ringwood-dial", work));
  } catch (const Error&) {  // fewer threads do it, too
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
  for (int peer = group.rank() + 1; peer < group.size(); ++peer) {
    for (int i = 0; i < counts[peer]; ++i) {
      const Greeting hello{purpose, channel(peer, i), peer, group.rank()};
      Result<int> fd = group.listener->take(hello, group.deadline);
      fds[peer].push_back(owned(std::move(fd), peer, transport));
    }
  }
  return fds;
}

}  // namespace ringwood
