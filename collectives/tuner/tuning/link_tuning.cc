#include "collectives/tuner/tuning/link_tuning.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/tuner/machine/network_facts.h"
#include "transports/base/error.h"

namespace ringwood {
namespace {

constexpr std::string_view kBetweenHosts = " | ", kBetweenFacts = "; ";

// As in a fingerprint, where the transports in use stand last of a host. Nothing where the text is
// not one of those: it was too long, and is a hash.
std::optional<std::string> without_transports(std::string_view hardware) {
  std::set<std::string> kinds;
  while (!hardware.empty()) {
    const std::string_view host = hardware.substr(0, hardware.find(kBetweenHosts));
    hardware.remove_prefix(std::min(host.size() + kBetweenHosts.size(), hardware.size()));
    const size_t last = host.rfind(kBetweenFacts);
    if (last == host.npos) return std::nullopt;
    kinds.emplace(host.substr(0, last));
  }
  return fmt::format("{}", fmt::join(kinds, kBetweenHosts));
}

std::string value_in(const LinkSettings& settings, const std::string& name) {
  const auto at = std::ranges::find(settings, name, &LinkSetting::name);
  return at == settings.end() ? "" : at->value;
}

// That a user has chosen otherwise, as a sentence; or nothing.
std::string chosen_otherwise(const LinkSettings& settings, const std::vector<RankFacts>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    LinkSettings chosen;
    try {
      chosen = parse_link_settings(ranks[r].chosen);
    } catch (const Error& error) {
      return fmt::format("rank {} says of its links: {}", r, error.cause);
    }
    for (const LinkSetting& s : settings)
      if (const std::string own = value_in(chosen, s.name); !own.empty() && own != s.value)
        return fmt::format("{0}={1} is set on rank {2}, but the file is for groups with {0}={3}",
                           s.name, own, r, s.value);
  }
  return "";
}

std::string objection(const TuningFile& file, TuningFingerprint now, const Options& options,
                      const std::vector<RankFacts>& ranks) {
  if (std::string why = chosen_otherwise(file.links, ranks); !why.empty()) return why;
  TuningFingerprint tuned = file.fingerprint;
  const auto then = without_transports(tuned.hardware), here = without_transports(now.hardware);
  tuned.hardware = then && here ? *then : "";
  now.hardware = then && here ? *here : "";
  now.knobs = link_knobs(with(options, file.links));
  return difference(tuned, now);
}

}  // namespace

RankFacts own_rank_facts(const Options& options) {
  return {hardware_of({host_facts("-")}), print(chosen_by_user(options))};
}

std::vector<FoundTuning> link_files(const std::string& knob, int ranks) {
  std::vector<FoundTuning> files;
  bool any = false;
  for (const std::string& path : tuning_paths(knob, ranks)) try {
      FoundTuning found;
      found.path = path;
      found.text = read_tuning_text(path);
      any |= found.text.find("links ") != std::string::npos;
      files.push_back(std::move(found));
    } catch (const Error&) {
      // It is looked at again when there are links, and the reason is given then.
    }
  if (!any) return {};
  for (FoundTuning& found : files) try {
      found.file = parse_tuning_file(found.text);
      found.ranks = found.file->fingerprint.ranks();
      found.expected = true;
    } catch (const Error&) {
      // Likewise.
    }
  std::erase_if(files, [&](const FoundTuning& f) { return !f.file || f.ranks != ranks; });
  if (std::ranges::all_of(files, [](const FoundTuning& f) { return f.file->links.empty(); }))
    return {};
  return files;
}

LinkChoice choose_link_file(const std::vector<FoundTuning>& files, const TuningFingerprint& now,
                            const Options& options, const std::vector<RankFacts>& ranks) {
  LinkChoice choice;
  for (const FoundTuning& found : files) {
    const std::string why = objection(*found.file, now, options, ranks);
    if (why.empty()) {
      if (!found.file->links.empty()) choice.file = found;
      return choice;
    }
    if (!choice.path.empty()) continue;
    choice.path = found.path;
    choice.refusal = refusal_of(found.path, why);
  }
  return choice;
}

}  // namespace ringwood
