// The settings of links that one rank may choose for all: knobs that are read before the links are
// made, whose best values `ringwood tune --links` measures.
//
// A text of them may be anybody's: a file's, or rank 0's in the store. So names are those of
// kLinkKnobs, and values are read by the table of knobs (knobs.h), which knows their ranges. What
// is refused throws Error(invalid_argument). Values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "transports/base/options.h"

namespace ringwood {

inline constexpr std::array kLinkKnobs = {"RINGWOOD_TCP_SOCKETS", "RINGWOOD_VERBS_QPS",
                                          "RINGWOOD_VERBS_RING_BYTES", "RINGWOOD_SHM_RING_BYTES"};
inline constexpr size_t kMaxLinkSettings = 512;  // bytes of a text

struct LinkSetting {
  std::string name;   // of kLinkKnobs
  std::string value;  // as the table of knobs shows it: bytes as a plain number
  bool operator==(const LinkSetting&) const = default;
};
// Each knob at most once, in the order of kLinkKnobs.
using LinkSettings = std::vector<LinkSetting>;

// "RINGWOOD_TCP_SOCKETS=8 RINGWOOD_SHM_RING_BYTES=4194304"; "" for none.
std::string print(const LinkSettings& settings);
LinkSettings parse_link_settings(std::string_view text);

// `options` with these settings.
Options with(Options options, const LinkSettings& settings);

// Those that the user of `options` has chosen: they are not the defaults, or a variable of the
// environment sets them, which may be to the default.
LinkSettings chosen_by_user(const Options& options);
// Without those that are the defaults.
LinkSettings without_defaults(LinkSettings settings);

}  // namespace ringwood
