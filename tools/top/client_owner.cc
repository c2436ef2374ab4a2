#include "tools/top/client_owner.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace ringwood::tools {
namespace {

// As the tables write it: the address in words of 32 bits of this machine's order, and the port.
std::string written(const asio::ip::tcp::endpoint& end) {
  std::string text;
  const auto add = [&](const auto& bytes) {
    for (size_t at = 0; at < bytes.size(); at += 4) {
      uint32_t word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      text += fmt::format("{:08X}", word);
    }
  };
  if (end.address().is_v4())
    add(end.address().to_v4().to_bytes());
  else
    add(end.address().to_v6().to_bytes());
  return fmt::format("{}:{:04X}", text, end.port());
}

}  // namespace

std::optional<unsigned> owner_of_client(const asio::ip::tcp::socket& socket) {
  asio::error_code error;
  const auto client = socket.remote_endpoint(error);
  if (error || !client.address().is_loopback()) return std::nullopt;
  const std::string theirs = written(client), ours = written(socket.local_endpoint(error));
  std::ifstream table(client.address().is_v4() ? "/proc/net/tcp" : "/proc/net/tcp6");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, skipped;
    unsigned user = 0;
    words >> number >> local >> remote;
    if (local != theirs || remote != ours) continue;
    for (int i = 0; i < 4; ++i) words >> skipped;  // state, queues, timer, retransmissions
    // A socket that nobody holds any more has no owner, and is not that of root.
    uint64_t inode = 0;
    if (words >> user >> skipped >> inode && inode != 0) return user;
  }
  return std::nullopt;
}

}  // namespace ringwood::tools
