#include "collectives/tuner/tuning/group_tuning.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "collectives/tuner/machine/group_model.h"
#include "collectives/tuner/machine/link_talk.h"
#include "collectives/tuner/machine/network_facts.h"
#include "collectives/tuner/tuning/find_tuning.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

// What rank 0's announcement ends with: it may have a tuning file; and some that sets the links, so
// that ranks are to introduce themselves with their facts.
constexpr std::string_view kMark = "\ntuning", kLinksMark = "\ntuning links";

// A job has many groups, and a file is for groups of one size. So what is wrong with a file is said
// aloud once in a process; and where it was used, or was refused for groups of another size, once
// more at most.
bool first_time(const FoundTuning& found, const TuningFingerprint& now) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, bool>> said;
  const bool other_size = found.ranks > 0 && found.ranks != now.ranks();
  const std::lock_guard lock(mutex);
  const bool known = said.contains({found.path, false});
  const bool added = said.emplace(found.path, other_size).second;
  return added && !(other_size && known);
}

// Of the first ranks of the hosts.
std::string hardware_told(const std::vector<int>& hosts, const std::vector<RankFacts>& ranks) {
  std::vector<std::string> facts;
  for (const int rank : first_ranks(hosts))
    facts.push_back(ranks[static_cast<size_t>(rank)].hardware);
  return hardware_of(facts);
}

}  // namespace

GroupTuning::GroupTuning(int rank, int size, const Options& options)
    : announces_(rank == 0 && size > 1), options_(options) {
  if (announces_) link_files_ = link_files(options.tuning_file, size);
}

std::string GroupTuning::announcement() const {
  if (!announces_) return "";
  std::string parameters = announced_parameters(options_);
  if (!link_files_.empty()) return parameters.append(kLinksMark);
  return may_be_tuned(options_.tuning_file) ? parameters.append(kMark) : parameters;
}

void GroupTuning::unmark(std::string& announcement) {
  const bool links = announcement.ends_with(kLinksMark);
  marked_ = links || announcement.ends_with(kMark);
  if (marked_) announcement.resize(announcement.size() - (links ? kLinksMark : kMark).size());
}

LinkAgreement GroupTuning::links() {
  LinkAgreement agreement;
  agreement.introduce = [this](const std::string& announcement) {
    return announcement.ends_with(kLinksMark) ? encode(own_rank_facts(options_)) : "";
  };
  if (!link_files_.empty()) agreement.decide = std::bind_front(&GroupTuning::decide, this);
  return agreement;
}

LinkSettings GroupTuning::decide(const Mesh& mesh, const std::vector<std::string>& told) {
  std::vector<RankFacts> ranks(told.size());
  for (size_t r = 0; r < told.size(); ++r)
    if (!decode(told[r], ranks[r])) {
      log(LogLevel::warn, "tuning",
          fmt::format("no tuning file sets the links: what rank {} says of itself is damaged", r));
      return {};
    }
  TuningFingerprint now = own_fingerprint(mesh, options_);
  now.hardware = hardware_told(now.hosts, ranks);
  choice_ = choose_link_file(link_files_, now, options_, ranks);
  if (!choice_.file) return {};
  const LinkSettings& links = choice_.file->file->links;
  log(LogLevel::info, "tuning",
      fmt::format("tuning file {} sets the links of all ranks: {}", choice_.file->path,
                  print(links)));
  return links;
}

// Rank 0's part: the text of the file that is for this group.
std::string GroupTuning::text_for(const TuningFingerprint& now) const {
  FoundTuning found = choice_.file ? *choice_.file : find_tuning(options_.tuning_file, now);
  if (choice_.file) judge_tuning(found, now);
  if (found.path.empty()) return "";
  if (!found.refusal.empty() && choice_.file)
    found.refusal += fmt::format("; the links of this group have its settings all the same: {}",
                                 print(choice_.file->file->links));
  // What users of other ranks have chosen is not to be seen in the knobs of rank 0.
  if (found.path == choice_.path)
    found = {found.path, "", {}, choice_.refusal, found.ranks, found.expected};
  const bool first = first_time(found, now), aloud = choice_.file || (first && found.expected);
  if (!found.refusal.empty()) log(aloud ? LogLevel::warn : LogLevel::info, "tuning", found.refusal);
  if (found.file)
    log(LogLevel::info, "tuning",
        fmt::format("tuning file {}: {}", found.path, summary(*found.file)));
  return found.text;
}

void GroupTuning::agree(Mesh& mesh) {
  if (!marked_) return;
  LinkTalk talk(mesh, Deadline::after(options_.init_timeout), options_.spin_us == 0);
  TuningFingerprint now = own_fingerprint(mesh, options_);
  const std::vector<int> first = first_ranks(now.hosts);
  const int leader = first[static_cast<size_t>(now.hosts[static_cast<size_t>(mesh.rank)])];
  if (leader != mesh.rank) {
    text_ = talk.receive_text(leader, kMaxTuningText, true);
    return;
  }
  std::vector<int> others;
  for (int r = 0; r < mesh.size; ++r)
    if (r != mesh.rank &&
        now.hosts[static_cast<size_t>(r)] == now.hosts[static_cast<size_t>(mesh.rank)])
      others.push_back(r);
  if (mesh.rank == 0) {
    std::vector<std::string> facts{now.hardware};
    for (size_t h = 1; h < first.size(); ++h)
      facts.push_back(talk.receive_text(first[h], kMaxTuningText, true));
    now.hardware = hardware_of(facts);
    text_ = text_for(now);
    others.insert(others.end(), first.begin() + 1, first.end());
  } else {
    talk.send_text(0, now.hardware);
    text_ = talk.receive_text(0, kMaxTuningText, true);
  }
  talk.send_texts(others, text_);
}

std::shared_ptr<const TuningFile> parse_tuning(const std::string& text) {
  return text.empty() ? nullptr : std::make_shared<const TuningFile>(parse_tuning_file(text));
}

std::vector<int> first_ranks(const std::vector<int>& hosts) {
  std::vector<int> first;
  for (size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r] == static_cast<int>(first.size())) first.push_back(static_cast<int>(r));
  return first;
}

TuningFingerprint own_fingerprint(const Mesh& mesh, const Options& options) {
  TuningFingerprint f;
  f.hosts =
      mesh.several_hosts ? mesh.host_numbers : std::vector<int>(static_cast<size_t>(mesh.size), 0);
  f.nodes = mesh.node_numbers;
  f.hardware = hardware_of({host_facts(mesh.transports_in_use())});
  f.knobs = link_knobs(with(options, mesh.link_settings));
  f.table = table_hash();
  return f;
}

}  // namespace ringwood
