#include "transports/base/knobs/link_knobs.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "transports/base/bytes.h"
#include "transports/base/error.h"
#include "transports/base/knobs/knob_text.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood {
namespace {

constexpr size_t kMaxShown = 40;

// Precondition: `name` is one of kLinkKnobs.
const Knob& knob_named(std::string_view name) {
  return *std::ranges::find(knobs(), name, [](const Knob& k) { return std::string_view(k.name); });
}

size_t place_of(std::string_view name) {
  return static_cast<size_t>(std::ranges::find(kLinkKnobs, name) - kLinkKnobs.begin());
}

std::string shown_default(std::string_view name) { return knob_named(name).text.show(Options()); }

LinkSetting parse_setting(std::string_view word) {
  const size_t at = word.find('=');
  const std::string_view name = word.substr(0, at);
  if (at == word.npos || place_of(name) == kLinkKnobs.size())
    refuse(fmt::format("'{}' is no setting of links, which are {}",
                       printable(word.substr(0, kMaxShown)), fmt::join(kLinkKnobs, ", ")));
  const std::string value(word.substr(at + 1));
  Options read;
  try {
    knob_named(name).text.parse(value, read);
  } catch (const Expected& expected) {
    refuse(fmt::format("{}={}: expected {}", name,
                       printable(std::string_view(value).substr(0, kMaxShown)), expected));
  }
  return {std::string(name), knob_named(name).text.show(read)};
}

}  // namespace

std::string print(const LinkSettings& settings) {
  std::string text;
  for (const LinkSetting& s : settings)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", s.name, s.value);
  return text;
}

LinkSettings parse_link_settings(std::string_view text) {
  if (text.size() > kMaxLinkSettings)
    refuse(fmt::format("{} bytes of settings are more than the {} allowed", text.size(),
                       kMaxLinkSettings));
  std::array<std::optional<LinkSetting>, kLinkKnobs.size()> found;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (word.empty()) continue;
    LinkSetting setting = parse_setting(word);
    auto& place = found[place_of(setting.name)];
    if (place) refuse(fmt::format("{} occurs twice", setting.name));
    place = std::move(setting);
  }
  LinkSettings settings;
  for (auto& setting : found)
    if (setting) settings.push_back(std::move(*setting));
  return settings;
}

Options with(Options options, const LinkSettings& settings) {
  for (const LinkSetting& s : settings) knob_named(s.name).text.parse(s.value, options);
  return options;
}

LinkSettings chosen_by_user(const Options& options) {
  LinkSettings settings;
  for (const char* const name : kLinkKnobs) {
    const Knob& knob = knob_named(name);
    std::string value = knob.text.show(options);
    if (value != shown_default(name) || setting_of(knob).name)
      settings.push_back({name, std::move(value)});
  }
  return settings;
}

LinkSettings without_defaults(LinkSettings settings) {
  std::erase_if(settings, [](const LinkSetting& s) { return s.value == shown_default(s.name); });
  return settings;
}

}  // namespace ringwood
