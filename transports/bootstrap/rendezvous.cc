#include <fmt/core.h>

#include <charconv>
#include <map>
#include <string>

#include "transports/base/error.h"
#include "transports/base/options.h"
#include "transports/bootstrap/launch.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store.h"

namespace ringwood {
namespace {

[[noreturn]] void refuse(const std::string& url, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("rendezvous \"{}\": {}", url, why));
}

struct Url {
  std::string scheme, rest;  // "tcp", "host:port"
  int rank = -1, size = -1;  // -1: not given
};

int parse_count(const std::string& url, const std::string& name, const std::string& text) {
  int value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    refuse(url, fmt::format("{}=\"{}\" is not a number from 0", name, text));
  }
  return value;
}

Url parse_url(const std::string& url) {
  Url parsed;
  size_t colon = url.find("://");
  if (colon == url.npos) refuse(url, "expected env://, file:///path or tcp://host:port");
  parsed.scheme = url.substr(0, colon);
  size_t query = url.find('?', colon);
  parsed.rest = url.substr(colon + 3, query == url.npos ? url.npos : query - colon - 3);
  for (size_t at = query; at < url.size();) {
    size_t end = std::min(url.find('&', at + 1), url.size());
    std::string item = url.substr(at + 1, end - at - 1);
    size_t equals = std::min(item.find('='), item.size());
    std::string name = item.substr(0, equals),
                value = item.substr(std::min(equals + 1, item.size()));
    if (name == "rank") {
      parsed.rank = parse_count(url, name, value);
    } else if (name == "world_size") {
      parsed.size = parse_count(url, name, value);
    } else {
      refuse(url, fmt::format("\"{}\" is not known; rank and world_size are", name));
    }
    at = end;
  }
  return parsed;
}

// The argument wins over the URL, and the URL over the launcher.
int first_given(int argument, int from_url, int from_launcher) {
  if (argument >= 0) return argument;
  return from_url >= 0 ? from_url : from_launcher;
}

std::shared_ptr<Store> open_store(const std::string& url, const Url& parsed,
                                  const LaunchEnvironment& launch, const Rendezvous& me,
                                  Deadline deadline, const Options& options) {
  const auto meet_at = [&](const NetAddress& master) {
    return tcp_store(master.host, master.port, me.rank == 0, deadline, options, me.size);
  };
  if (parsed.scheme == "tcp") return meet_at(parse_net_address(parsed.rest));
  if (parsed.scheme == "file") {
    if (parsed.rest.empty() || parsed.rest[0] != '/')
      refuse(url, "expected an absolute path: file:///path");
    return file_store(parsed.rest);
  }
  if (parsed.scheme != "env") refuse(url, "expected env://, file:///path or tcp://host:port");
  if (launch.master_addr.empty()) refuse(url, "MASTER_ADDR is not set; it is the host of rank 0");
  if (launch.master_port == 0)
    refuse(url, "MASTER_PORT is not set; it is a free port on the host of rank 0");
  // The agent of torchrun serves a store of its own on MASTER_PORT.
  const bool taken = launch.launcher == "torchrun";
  return meet_at({launch.master_addr, launch.master_port + (taken ? 1 : 0)});
}

}  // namespace

Rendezvous rendezvous(const std::string& url, int rank, int size) {
  const Options options = Options::from_environment();
  return rendezvous(url, rank, size, Deadline::after(options.init_timeout), options);
}

Rendezvous rendezvous(const std::string& url, int rank, int size, Deadline deadline,
                      const Options& options) {
  Url parsed = parse_url(url);
  LaunchEnvironment launch = read_launch_environment();
  Rendezvous result;
  result.rank = first_given(rank, parsed.rank, launch.rank);
  result.size = first_given(size, parsed.size, launch.world_size);
  if (result.rank < 0)
    refuse(url, "the rank is not known; set RANK, add ?rank= or use torchrun, mpirun or srun");
  if (result.size < 0)
    refuse(url, "the size is not known; set WORLD_SIZE, add world_size= to the URL");
  if (result.rank >= result.size) {
    refuse(url, fmt::format("rank {} is not below the size {}", result.rank, result.size));
  }
  result.store = open_store(url, parsed, launch, result, deadline, options);
  return result;
}

}  // namespace ringwood
