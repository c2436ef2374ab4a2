#include "collectives/tuner/plugin/plugin_tuner.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/tuner_plugin.h"
#include "transports/base/log.h"

namespace ringwood {
namespace {

constexpr const char* kSymbol = "ringwood_tuner_v1";
// Beyond this the queries do not repeat.
constexpr size_t kMaxAnswers = 4096;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("RINGWOOD_TUNER {}: {}", name, why));
}

void check(const ringwood_tuner* plugin, const std::string& from) {
  if (!plugin) refuse(from, fmt::format("{}() returned nothing", kSymbol));
  if (plugin->version != RINGWOOD_TUNER_VERSION)
    refuse(from, fmt::format("it is made for version {} of tuner_plugin.h, and this is {}: compile "
                             "it anew",
                             plugin->version, RINGWOOD_TUNER_VERSION));
  if (!plugin->choose || !plugin->name) refuse(from, "it has no name, or no choose()");
}

// What begin() returned for a group, until end().
class PluginState final {
 public:
  PluginState(const ringwood_tuner& plugin, const GroupFacts& group, int ranks) : plugin_(plugin) {
    if (!plugin.begin) return;
    const auto all = [&](const std::vector<int>& places) {
      return places.empty() ? std::vector<int>(static_cast<size_t>(ranks), 0) : places;
    };
    const std::vector<int> hosts = all(group.hosts),
                           nodes = group.nodes.empty() ? hosts : group.nodes;
    const ringwood_tuner_group facts{ranks, hosts.data(), nodes.data()};
    char why[256] = "it gave no reason";
    state_ = plugin.begin(&facts, why, sizeof why);
    why[sizeof why - 1] = '\0';
    if (!state_) refuse(plugin.name, fmt::format("it refuses this group of {}: {}", ranks, why));
  }
  ~PluginState() {
    if (plugin_.end) plugin_.end(state_);
  }
  PluginState(const PluginState&) = delete;
  PluginState& operator=(const PluginState&) = delete;
  void* get() const { return state_; }

 private:
  const ringwood_tuner& plugin_;
  void* state_ = nullptr;
};

class PluginTuner final : public Tuner {
 public:
  PluginTuner(std::shared_ptr<const Tuner> inner, const ringwood_tuner& plugin,
              std::shared_ptr<const PluginState> state, const Options& options)
      : inner_(std::move(inner)), plugin_(plugin), state_(std::move(state)), options_(options) {}

  TuningChoice choose(const TuningQuery& query, const std::string& algorithm,
                      int segments) const override {
    const bool named = !algorithm.empty() || segments != 0 || names_row(options_, query.collective);
    const bool ordered = options_.reproducible && reduces(query.collective);
    if (named || ordered) return inner_->choose(query, algorithm, segments);
    check_tolerance(query);  // no key can be made of a NaN
    const Key key{query.collective, query.bytes, query.type,   query.op,
                  query.root,       query.n,     query.uneven, tolerance_of(query)};
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = answers_.find(key); it != answers_.end()) return it->second;
    }
    TuningChoice choice = ask(query);
    const std::lock_guard lock(mutex_);
    if (answers_.size() >= kMaxAnswers) answers_.clear();
    return answers_.emplace(key, std::move(choice)).first->second;
  }

  // The plugin's choice becomes the chosen one of what the inner tuner explains.
  std::vector<Candidate> explain(const TuningQuery& query) const override {
    std::vector<Candidate> candidates = inner_->explain(query);
    const TuningChoice choice = choose(query, "", 0);
    if (choice.by != ChosenBy::plugin) return candidates;
    choose_instead(
        candidates, choice, [&] { return candidate_of(choice); },
        fmt::format("by the tuner {}", plugin_.name),
        fmt::format("the tuner {} chose another one", plugin_.name));
    return candidates;
  }

  const GroupFacts& group() const override { return inner_->group(); }
  std::shared_ptr<const Tuner> with(const std::string& parameters) const override {
    return std::make_shared<PluginTuner>(inner_->with(parameters), plugin_, state_, options_);
  }
  Proposal weigh(const NetworkParameters& measured, const std::vector<UsedChoice>& used,
                 const std::atomic<bool>& stop) const override {
    std::vector<UsedChoice> others;
    for (const UsedChoice& one : used)
      if (choose(one.query, "", 0).by != ChosenBy::plugin) others.push_back(one);
    return inner_->weigh(measured, others, stop);
  }

 private:
  using Key = std::tuple<Collective, size_t, DataType, ReduceOp, int, int, bool, double>;

  double tolerance_of(const TuningQuery& q) const {
    return q.tolerance < 0 ? options_.tolerance : q.tolerance;
  }

  TuningChoice ask(const TuningQuery& query) const {
    const std::string type = to_string(query.type), op = to_string(query.op);
    const ringwood_tuner_query asked{to_string(query.collective),
                                     type.c_str(),
                                     op.c_str(),
                                     query.bytes,
                                     query.root,
                                     query.uneven,
                                     tolerance_of(query)};
    ringwood_tuner_choice told{};
    if (plugin_.choose(state_->get(), &asked, &told) != 1) return inner_->choose(query);
    told.algorithm[sizeof told.algorithm - 1] = '\0';
    try {
      if (told.segments < 0 || told.segments > kMaxSegments)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} segments of {}: 0 to {} are possible", told.segments,
                                told.algorithm, kMaxSegments));
      if (told.algorithm[0] == '\0')
        throw Error(ErrorCode::invalid_argument, "it names no algorithm");
      TuningChoice choice = inner_->choose(query, told.algorithm, told.segments);
      choice.by = ChosenBy::plugin;
      return choice;
    } catch (const Error& error) {
      if (first_time(query.collective, told.algorithm))
        log(LogLevel::warn, "tuning",
            fmt::format("the tuner {} chose what cannot be used: {}", plugin_.name, error.cause));
      return inner_->choose(query);
    }
  }

  bool first_time(Collective collective, const std::string& algorithm) const {
    const std::lock_guard lock(mutex_);
    return said_.emplace(collective, algorithm).second;
  }

  const std::shared_ptr<const Tuner> inner_;
  const ringwood_tuner& plugin_;
  const std::shared_ptr<const PluginState> state_;
  const Options options_;
  mutable std::mutex mutex_;
  mutable std::map<Key, TuningChoice> answers_;
  mutable std::set<std::pair<Collective, std::string>> said_;
};

}  // namespace

const ringwood_tuner* load_plugin(const Options& options) {
  if (options.tuner_plugin) {
    check(options.tuner_plugin, "Options::tuner_plugin");
    return options.tuner_plugin;
  }
  const std::string& path = options.tuner;
  if (path.empty()) return nullptr;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    refuse(path, fmt::format("{}; name a shared library that this rank can read, or unset it",
                             ::dlerror()));
  using Entry = const ringwood_tuner* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, kSymbol));
  if (!entry) refuse(path, fmt::format("it has no {}(): see ringwood/tuner_plugin.h", kSymbol));
  const ringwood_tuner* const plugin = entry();
  check(plugin, path);
  return plugin;
}

std::shared_ptr<const Tuner> with_plugin(std::shared_ptr<const Tuner> inner,
                                         const ringwood_tuner& plugin, int ranks,
                                         const Options& options) {
  auto state = std::make_shared<const PluginState>(plugin, inner->group(), ranks);
  log(LogLevel::info, "tuning", fmt::format("the tuner {} is asked first", plugin.name));
  return std::make_shared<PluginTuner>(std::move(inner), plugin, std::move(state), options);
}

}  // namespace ringwood
