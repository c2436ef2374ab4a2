#include "transports/base/options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "transports/base/error.h"
#include "transports/base/knobs/knob_text.h"
#include "transports/base/knobs/knobs.h"
#include "transports/base/knobs/nearest.h"

namespace ringwood {
namespace {

// A process makes many communicators; the same hint is given once.
void warn_once(LogLevel level, const std::string& text) {
  static std::mutex mutex;
  static auto* seen = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (seen->insert(text).second) log(level, "options", text);
}

void warn_about_unknown() {
  constexpr std::string_view kPrefix = "RINGWOOD_";
  std::vector<std::string_view> names;
  for (const Knob& knob : knobs()) names.emplace_back(knob.name);
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view name(*entry);
    name = name.substr(0, name.find('='));
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    const std::string_view known = nearest(name, names);
    if (known == name) continue;
    warn_once(LogLevel::warn,
              fmt::format("{} is not a known variable and has no effect; the nearest is {}", name,
                          known));
  }
}

bool is_alias(std::string_view name) {
  return std::ranges::any_of(knobs(), [&](const Knob& knob) {
    return std::ranges::any_of(knob.aliases,
                               [&](const char* alias) { return alias && name == alias; });
  });
}

// A cluster's job script sets many variables; its author should see which of them have no effect.
void name_what_is_ignored() {
  constexpr std::string_view kPrefix = "NCCL_";
  std::set<std::string_view> ignored;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    const bool set = text.size() > name.size() + 1;
    if (set && name.substr(0, kPrefix.size()) == kPrefix && !is_alias(name)) ignored.insert(name);
  }
  if (!ignored.empty())
    warn_once(LogLevel::info, fmt::format("set, but has no counterpart here and is ignored: {}",
                                          fmt::join(ignored, ", ")));
}

}  // namespace

Options Options::from_environment() {
  Options options;
  std::vector<std::string> taken;
  for (const Knob& knob : knobs()) {
    const auto [name, value] = setting_of(knob);
    if (!name) continue;
    try {
      knob.text.parse(value, options);
    } catch (const Expected& expected) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}=\"{}\": expected {}", name, value, expected));
    }
    if (name != knob.name) {
      taken.push_back(fmt::format("{}={} is taken as {}", name, value, knob.name));
    }
  }
  // Otherwise these lines would be filtered by the level that was in force before.
  if (options.log_level != Options().log_level) log_set_level(options.log_level);
  for (const std::string& text : taken) warn_once(LogLevel::info, text);
  warn_about_unknown();
  name_what_is_ignored();
  return options;
}

Setting setting_of(const Knob& knob) {
  const auto set_by = [](const char* name) -> Setting {
    const char* value = name ? std::getenv(name) : nullptr;
    return value && *value ? Setting{name, value} : Setting{};
  };
  Setting found = set_by(knob.name);
  for (const char* alias : knob.aliases) {
    if (!found.name) found = set_by(alias);
  }
  return found;
}

std::string cache_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/ringwood";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/ringwood" : "";
}

}  // namespace ringwood
