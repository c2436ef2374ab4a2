// One opened port of one RDMA device: whether it is active, its GID, and what the peers learn about
// it.
//
// Each port has its own context, so that an event is never delivered to another port's reader.
// Children do not inherit its descriptors; in a child the destructor releases nothing.
//
// Thread safety: library(), context(), number() and the address's name never change after open()
// and may be read by any thread; all else by one thread at a time.
#pragma once

#include <string>

#include "transports/base/fork_guard.h"
#include "transports/base/options.h"
#include "transports/verbs/library/library.h"
#include "transports/verbs/rail/addresses.h"

namespace ringwood::verbs {

class Port final {
 public:
  // Takes over the context.
  Port(const Library& library, ibv_context* context, int number) noexcept;
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Names the port and asks for its state the first time. False with `why`.
  bool open(const VerbsOptions& options, std::string& why);
  // Asks whether it can be used now, and chooses the GID again. False with `why`.
  bool ask(const VerbsOptions& options, std::string& why);

  const Library& library() const { return library_; }
  ibv_context* context() const { return context_; }
  int number() const { return number_; }
  const RailAddress& address() const { return address_; }
  int gid_index() const { return gid_index_; }
  // True in a child of the process that opened it: everything made from it is the parent's.
  bool inherited() const noexcept { return forked_since(process_); }

 private:
  bool ask_state(std::string& why);
  bool choose_gid(const VerbsOptions& options, std::string& why);

  const Library& library_;
  ibv_context* const context_;
  const int number_;
  int process_ = 0;
  RailAddress address_;
  int gid_index_ = 0;
};

// For a device's descriptors: events are read when there are any, never waited for.
void make_nonblocking(int fd);

}  // namespace ringwood::verbs
