// THE table of knobs: what the environment may say, how it is read and shown, what it does and why.
//
// To add one: a field of Options (options.h) and a row of knobs.cc. from_environment(), the search
// for the nearest name, `ringwood env` and the tests find it there. options.cc and launch.cc alone
// call getenv. The table is constant; any thread.
#pragma once

#include <array>
#include <span>
#include <string>

#include "transports/base/options.h"

namespace ringwood {

// A user knows these: at most 20. The others are for experiments and for hosts that are not like
// others.
enum class KnobFor { user, expert };

struct KnobText {
  // Throws what is expected, in words (knob_text.h).
  void (*parse)(const std::string& text, Options& options);
  std::string (*show)(const Options& options);  // as parse() takes it
};

struct Knob {
  const char* name;  // "RINGWOOD_..."
  KnobFor audience;
  std::array<const char*, 2> aliases;  // as other libraries call it; null: no more
  const char* example;                 // a value, not the default
  KnobText text;
  const char* does;  // one line
  const char* why;   // why it exists, and why its default is as it is
};
// Those for users first.
std::span<const Knob> knobs();

// The variable that sets it, the knob's own name before the aliases, and to what. `name` is null if
// none is set to anything.
struct Setting {
  const char* name = nullptr;
  const char* value = nullptr;
};
Setting setting_of(const Knob& knob);

// Where this user's programs keep what can be made again: $XDG_CACHE_HOME/ringwood, or that of
// $HOME/.cache. Empty where neither is an absolute path.
std::string cache_directory();

}  // namespace ringwood
