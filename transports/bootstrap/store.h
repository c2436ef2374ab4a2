// Rendezvous: a small key-value store that all ranks of a job reach.
//
// Contract: set() makes a value visible to every rank; get() waits for the key until the deadline
// and throws Error(timeout) naming the key; add() is atomic over all ranks and returns the new
// value; remove() of a missing key is not an error. Values are bytes. All methods throw Error. Any
// thread may call; calls may block. Users version their keys (the communicator prefixes them with
// its generation) and delete what they set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace ringwood {

class Deadline;  // clock.h
struct Options;  // options.h

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
  virtual bool has(const std::string& key) = 0;
  virtual int64_t add(const std::string& key, int64_t delta) = 0;
  virtual void remove(const std::string& key) = 0;
  // By which ranks reach the store's master, "" if there is none: decides the network interface.
  virtual std::string master_address() const { return ""; }
};

// "env://", "file:///path", "tcp://host:port", with rank and size from the URL
// (?rank=0&world_size=2), from the arguments (>= 0), or from the launcher's variables; throws Error
// naming what is missing. The first form: Options::from_environment(), within their init_timeout.
struct Rendezvous {
  std::shared_ptr<Store> store;
  int rank = 0, size = 1;
};
Rendezvous rendezvous(const std::string& url, int rank = -1, int size = -1);
Rendezvous rendezvous(const std::string& url, int rank, int size, Deadline deadline,
                      const Options& options);

// Ranks are threads of one process.
std::shared_ptr<Store> memory_store();
// Ranks share a folder (same host or a network file system). `path` is a file that need not exist;
// locked with flock; the last user removes it if no key is left.
std::shared_ptr<Store> file_store(const std::string& path);
// Rank 0 serves on host:port (port 0: any; the shared_ptr keeps the server alive), the others
// connect, again and again until the deadline. Requests are bounded (key 1 KiB, value 1 MiB), a bad
// one closes its connection, and so are connections, keys and bytes, by the world size (0: not
// known). With a key file in the options, nothing is told to who does not know the key; without,
// whoever reaches the port can read and write (store_server.h).
std::shared_ptr<Store> tcp_store(const std::string& host, int port, bool serve, Deadline deadline);
std::shared_ptr<Store> tcp_store(const std::string& host, int port, bool serve, Deadline deadline,
                                 const Options& options, int world_size = 0);
// The port that a tcp_store with serve = true listens on; 0 for any other store.
int tcp_store_port(const Store& store);
// A view of `store` in which every key begins with `prefix`.
std::shared_ptr<Store> prefix_store(std::shared_ptr<Store> store, const std::string& prefix);

}  // namespace ringwood
