// Reads the files of a host below any root: "/" is this machine, another folder is a copy of what
// another machine has in /sys, /proc and /dev (a sosreport is one).
//
// Files are untrusted, and so are trees: reads are bounded, only regular files are opened, and a
// link that leads out of the tree is not followed. What the tools of a host print has no file in
// /sys; in a tree it is looked for as sosreport keeps it, in sos_commands/ANYTHING/COMMAND, where
// blanks, slashes, commas and equals signs of the command are underscores:
// sos_commands/networking/ethtool_-S_eth0. On this machine such texts are never read. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

class Tree final {
 public:
  // Throws Error(invalid_argument) where there is no such folder.
  explicit Tree(const std::string& root);

  bool live() const { return live_; }

  // The file's first MiB, without blanks at its end. nullopt: it is not there or not readable; why
  // says which.
  std::optional<std::string> text(const std::string& path) const;
  std::optional<std::string> text(const std::string& path, std::string& why) const;
  std::optional<int64_t> number(const std::string& path) const;
  // The names in a folder, sorted; at most 4096, none if it is not there.
  std::vector<std::string> names(const std::string& path) const;
  // How many there are, up to a million; nullopt: the folder is not there or not readable.
  std::optional<int64_t> count(const std::string& path) const;
  bool exists(const std::string& path) const;
  // The path, below the root, that a path leads to when all links are followed; "": none.
  std::string resolved(const std::string& path) const;
  // The last part of it, or of what the link says: the driver that it names.
  std::string target(const std::string& path) const;
  // What a command of that host printed; nullopt also on this machine.
  std::optional<std::string> printed(const std::string& command) const;
  // The same for a command that is typed in several ways.
  std::optional<std::string> printed_first(std::initializer_list<const char*> commands) const;

  // What could not be read, for the snapshot.
  void miss(const std::string& need, const std::string& where, const std::string& reason);
  // text(), and a gap if it is there but cannot be read, or if it `must` be there.
  std::optional<std::string> needed(const std::string& need, const std::string& where,
                                    const std::string& path, bool must);
  const std::vector<Gap>& gaps() const { return gaps_; }

 private:
  std::filesystem::path root_;
  bool live_;
  std::vector<Gap> gaps_;
};

// A number at the beginning of a text: "4096 bytes" -> 4096; nullopt: there is none, or it is too
// large.
std::optional<int64_t> leading_number(const std::string& text, int base = 10);
std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> words_of(const std::string& text);
std::string trimmed(const std::string& text);
bool begins_with(const std::string& text, const std::string& beginning);

}  // namespace ringwood::tools::doctor
