// The table of knobs: the environment's variables, how they are read and shown, what they do and
// why.
//
// To add one: a field of Options (options.h) and a row of user_knobs.cc or expert_knobs.cc.
// from_environment(), the search for the nearest name, `ringwood env` and the tests find it there.
// Only options.cc and launch.cc call getenv. The table is constant; any thread.
#pragma once

#include <array>
#include <span>
#include <string>

#include "transports/base/options.h"

namespace ringwood {

// Knobs for users: at most 20. The others are for experiments and for unusual hosts.
enum class KnobFor { user, expert };

struct KnobText {
  // Throws what is expected, in words (knob_text.h).
  void (*parse)(const std::string& text, Options& options);
  std::string (*show)(const Options& options);  // as parse() takes it
};

struct Knob {
  const char* name;  // "RINGWOOD_..."
  KnobFor audience;
  std::array<const char*, 2> aliases;  // other libraries' names; null: no more
  const char* example;                 // a value, not the default
  KnobText text;
  const char* does;  // one line
  const char* why;   // why it exists, and why its default is as it is
};
// Knobs for users first.
std::span<const Knob> knobs();

// The variable that sets a knob (its own name goes before the aliases) and its value. `name` is
// null if none is set.
struct Setting {
  const char* name = nullptr;
  const char* value = nullptr;
};
Setting setting_of(const Knob& knob);

// Where this user's programs keep files that can be made again: $XDG_CACHE_HOME/ringwood, or the
// same in $HOME/.cache. Empty if neither is an absolute path.
std::string cache_directory();

}  // namespace ringwood
