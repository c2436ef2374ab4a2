// One port of one device, opened: whether it is active, its GID, and what the peers are told of it.
//
// A context for each port, so that an event is never delivered to another port's reader. Children
// do not inherit its descriptors; in a child the destructor gives nothing back.
//
// Thread safety: library(), context(), number() and the address's name never change after open()
// and may be asked from any thread; the rest from one at a time.
#pragma once

#include <string>

#include "transports/base/fork_guard.h"
#include "transports/base/options.h"
#include "transports/verbs/library/library.h"
#include "transports/verbs/rail/addresses.h"

namespace ringwood::verbs {

class Port final {
 public:
  // Takes the context over.
  Port(const Library& library, ibv_context* context, int number) noexcept;
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Names it and asks for the first time. False with `why`.
  bool open(const VerbsOptions& options, std::string& why);
  // Whether it can be used, now; chooses the GID anew. False with `why`.
  bool ask(const VerbsOptions& options, std::string& why);

  const Library& library() const { return library_; }
  ibv_context* context() const { return context_; }
  int number() const { return number_; }
  const RailAddress& address() const { return address_; }
  int gid_index() const { return gid_index_; }
  // This is a child of the process that opened it: whatever was made of it is the parent's.
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

// Of a device's descriptors: what it tells is taken when there is something, never waited for.
void make_nonblocking(int fd);

}  // namespace ringwood::verbs
