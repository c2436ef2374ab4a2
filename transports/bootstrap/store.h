// Rendezvous: a small key-value store that all ranks of a job reach.
//
// 1. set() makes a value visible to every rank. Values are bytes.
// 2. get() waits for the key until the deadline, then throws Error(timeout) naming the key.
// 3. add() is atomic over all ranks and returns the new value.
// 4. set(), has() and add() throw if there is no answer by their deadline (without one: a minute),
//    but for a few seconds, in which a rank that gives up finds out who is missing.
// 5. remove() cleans up: a missing key is no error, nor a server that is gone, which is tried once.
// 6. All methods throw Error. Any thread may call; calls may block.
//
// Callers version their keys (the communicator by its generation) and remove what they set.
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
  virtual void set(const std::string& key, const std::string& value, Deadline deadline) = 0;
  virtual std::string get(const std::string& key, Deadline deadline) = 0;
  virtual bool has(const std::string& key, Deadline deadline) = 0;
  virtual int64_t add(const std::string& key, int64_t delta, Deadline deadline) = 0;
  virtual void remove(const std::string& key) = 0;
  void set(const std::string& key, const std::string& value);
  bool has(const std::string& key);
  int64_t add(const std::string& key, int64_t delta);
  // The address of the store's master, which decides the network interface; "" if there is none.
  virtual std::string master_address() const { return ""; }
};

// `url`: "env://", "file:///path" or "tcp://host:port". Rank and size come from the arguments (>=
// 0), the URL (?rank=0&world_size=2), or the launcher's variables. "env://" is MASTER_ADDR and
// MASTER_PORT (under torchrun the next port, as its agent uses this one). Throws Error naming what
// is missing. The first form uses Options::from_environment() and its init_timeout.
struct Rendezvous {
  std::shared_ptr<Store> store;
  int rank = 0, size = 1;
};
Rendezvous rendezvous(const std::string& url, int rank = -1, int size = -1);
Rendezvous rendezvous(const std::string& url, int rank, int size, Deadline deadline,
                      const Options& options);

// For ranks that are threads of one process.
std::shared_ptr<Store> memory_store();
// For ranks that share a folder. `path`: a file of this user alone (private_file.h), or none yet.
// Locked with flock; the last user removes it if no key is left.
std::shared_ptr<Store> file_store(const std::string& path);
// Rank 0 serves on host:port (port 0: any; the shared_ptr keeps the server alive); the others retry
// to connect until the deadline. Requests are bounded (key 1 KiB, value 1 MiB); connections, keys
// and bytes by the world size (0: not known). With a key file in the options, a client without the
// key learns nothing; else any that reaches the port can read and write (store_server.h).
std::shared_ptr<Store> tcp_store(const std::string& host, int port, bool serve, Deadline deadline);
std::shared_ptr<Store> tcp_store(const std::string& host, int port, bool serve, Deadline deadline,
                                 const Options& options, int world_size = 0);
// The port that a tcp_store with serve = true listens on; 0 for any other store.
int tcp_store_port(const Store& store);
// A view of `store` in which every key begins with `prefix`.
std::shared_ptr<Store> prefix_store(std::shared_ptr<Store> store, const std::string& prefix);

}  // namespace ringwood
