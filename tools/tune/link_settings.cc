#include "tools/tune/link_settings.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "collectives/runtime/group_parts.h"
#include "tools/tune/contest.h"
#include "tools/tune/trials.h"
#include "transports/base/clock.h"
#include "transports/mesh.h"

namespace ringwood::tools {
namespace {

constexpr double kShare = 0.25;
constexpr int kRepetitions = 9;
constexpr size_t kLargestSizes = 2;  // of each operation

struct Knob {
  const char* name;
  const char* transport;  // whose links it is for
  bool bytes;
  std::vector<size_t> values;
  size_t (*get)(const Options& options);
  void (*set)(Options& options, size_t value);
};

const std::vector<Knob>& knob_table() {
  static const std::vector<Knob> knobs = {
      {"RINGWOOD_TCP_SOCKETS",
       "tcp",
       false,
       {1, 2, 4, 8},
       [](const Options& o) { return static_cast<size_t>(o.tcp_sockets); },
       [](Options& o, size_t value) { o.tcp_sockets = static_cast<int>(value); }},
      {"RINGWOOD_VERBS_QPS",
       "verbs",
       false,
       {1, 2, 4, 8},
       [](const Options& o) { return static_cast<size_t>(o.verbs.queue_pairs); },
       [](Options& o, size_t value) { o.verbs.queue_pairs = static_cast<int>(value); }},
      {"RINGWOOD_VERBS_RING_BYTES",
       "verbs",
       true,
       {256 << 10, 1 << 20, 4 << 20},
       [](const Options& o) { return o.verbs.ring_bytes; },
       [](Options& o, size_t value) { o.verbs.ring_bytes = value; }},
      {"RINGWOOD_SHM_RING_BYTES",
       "shm",
       true,
       {256 << 10, 1 << 20, 4 << 20},
       [](const Options& o) { return o.shm_ring_bytes; },
       [](Options& o, size_t value) { o.shm_ring_bytes = value; }}};
  return knobs;
}

// Whether any two ranks talk by it. Collective.
bool in_use(Communicator& group, const std::string& transport) {
  const auto& peers = parts_of(group).mesh().peers;
  const auto by_it = [&](const Peer& p) { return p.transport == transport; };
  std::vector<double> used{std::ranges::any_of(peers, by_it) ? 1.0 : 0.0};
  take_slowest(group, used);
  return used[0] > 0;
}

// A group with one value of a knob.
struct Candidate {
  std::unique_ptr<Communicator> own;  // null: it is the group before, or it could not be made
  Communicator* group = nullptr;
  std::vector<std::vector<double>> times;  // by point
};

struct Point {
  const OperationRow* row;
  Call call;
  std::unique_ptr<CallData> data;
  int iterations = 0;  // 0: not known yet

  size_t bytes() const {
    return call.block_bytes() * (row->in_blocks() ? static_cast<size_t>(call.size()) : 1);
  }

  Call on(Communicator& group) const {
    Call c = call;
    c.communicator = &group;
    return c;
  }
};

class LinkTuner {
 public:
  LinkTuner(Place& place, const TuneOptions& tune, const Options& options,
            const std::function<void(const std::string&)>& progress)
      : place_(place), tune_(tune), progress_(progress), result_{options, {}} {}

  LinkTuning all() {
    base_ = Communicator::create(place_.store, place_.rank, place_.size, result_.options, "links");
    begin_ = now();
    for (const OperationRow* row : tune_.operations) add_points(*row);
    std::vector<const Knob*> used;
    for (const Knob& knob : knob_table())
      if (in_use(*base_, knob.transport)) used.push_back(&knob);
    for (size_t i = 0; i < used.size(); ++i)
      measure(*used[i], kShare * tune_.seconds * double(i + 1) / double(used.size()));
    finish(base_->barrier());
    return std::move(result_);
  }

 private:
  // Rank 0's, alike on all ranks.
  double now() {
    std::vector<double> clock{place_.rank == 0 ? seconds_in(Clock::now().time_since_epoch()) : 0};
    take_slowest(*base_, clock);
    return clock[0];
  }

  void add_points(const OperationRow& row) {
    const size_t first = tune_.sizes.size() - std::min(tune_.sizes.size(), kLargestSizes);
    for (size_t i = first; i < tune_.sizes.size(); ++i) {
      const size_t count = count_for(row, tune_.sizes[i], tune_.type, place_.size);
      Point point{&row, call_of(tune_, row, *base_, count), nullptr};
      Call& call = point.call;
      point.data = std::make_unique<CallData>(tune_, row, call);
      const auto chosen = base_->choice(*row.collective, call.block_bytes(), call.type, call.op);
      call.options.algorithm = chosen.algorithm;
      call.options.segments = chosen.segments;
      points_.push_back(std::move(point));
    }
  }

  // A rank that cannot make its part of the group leaves the others an error as well.
  void make_group(const Knob& knob, MeasuredSetting& setting, Candidate& candidate) {
    Options options = result_.options;
    knob.set(options, setting.value);
    try {
      candidate.own =
          Communicator::create(place_.store, place_.rank, place_.size, options, "links");
      candidate.group = candidate.own.get();
    } catch (const Error& error) {
      setting.impossible = error.cause;
    }
    std::vector<double> failed{setting.impossible.empty() ? 0.0 : 1.0};
    take_slowest(*base_, failed);
    if (failed[0] > 0) {
      candidate.group = nullptr;
      if (setting.impossible.empty()) setting.impossible = "another rank could not make the group";
    }
  }

  // Leaves zeros, which stay zeros however often they are reduced in place.
  static int64_t wrong_at(const Point& point, Communicator& group) {
    const Call call = point.on(group);
    const int64_t wrong = wrong_elements(*point.row, call, point.data->pattern());
    write_input(*point.row, call);
    return wrong;
  }

  static double time_of(const Point& point, Communicator& group) {
    const Call call = point.on(group);
    if (point.iterations > 1) point.row->run(call);  // its caches shall be its own
    return batch(*point.row, call, point.iterations);
  }

  // Every setting once at every point.
  void repeat(std::vector<Candidate>& candidates) {
    std::vector<double> seconds;
    std::vector<std::pair<size_t, size_t>> places;
    for (size_t p = 0; p < points_.size(); ++p) {
      Point& point = points_[p];
      if (point.iterations == 0) {
        std::vector<double> first{batch(*point.row, point.on(*base_), 1)};
        take_slowest(*base_, first);
        point.iterations = iterations_for(first[0]);
      }
      std::vector<size_t> order;
      for (size_t c = 0; c < candidates.size(); ++c)
        if (candidates[c].group) order.push_back(c);
      shuffle(order, random_);
      for (const size_t c : order) {
        seconds.push_back(time_of(point, *candidates[c].group));
        places.emplace_back(c, p);
      }
    }
    take_slowest(*base_, seconds);
    for (size_t i = 0; i < places.size(); ++i)
      candidates[places[i].first].times[places[i].second].push_back(seconds[i]);
  }

  void measure(const Knob& knob, double until) {
    MeasuredKnob measured{knob.name, knob.bytes, {}};
    const size_t before = knob.get(result_.options);
    measured.settings.emplace_back().value = before;
    for (const size_t value : knob.values)
      if (value != before) measured.settings.emplace_back().value = value;
    std::vector<Candidate> candidates(measured.settings.size());
    for (size_t c = 0; c < candidates.size(); ++c) {
      candidates[c].times.resize(points_.size());
      MeasuredSetting& setting = measured.settings[c];
      progress_(
          fmt::format("{}={}: a group is made", knob.name, print_setting(measured, setting.value)));
      if (c == 0)
        candidates[c].group = base_.get();
      else
        make_group(knob, setting, candidates[c]);
      for (const Point& point : points_)
        if (candidates[c].group) setting.wrong += wrong_at(point, *candidates[c].group);
      if (setting.wrong > 0) candidates[c].group = nullptr;
    }
    for (int r = 0; r < kRepetitions && candidates[0].group; ++r) {
      if (r >= kMinRepetitions && now() - begin_ > until) break;
      progress_(fmt::format("{}: repetition {} of at most {}", knob.name, r + 1, kRepetitions));
      repeat(candidates);
    }
    decide(measured, candidates);
    take(knob, measured, candidates);
    result_.knobs.push_back(std::move(measured));
  }

  void decide(MeasuredKnob& measured, const std::vector<Candidate>& candidates) const {
    for (size_t c = 0; c < candidates.size(); ++c)
      for (size_t p = 0; p < points_.size() && candidates[c].group; ++p)
        measured.settings[c].points.push_back(
            {points_[p].row->name(), points_[p].bytes(), measured_time(candidates[c].times[p], 1)});
    MeasuredSetting& before = measured.settings.front();
    MeasuredSetting* best = &before;
    for (MeasuredSetting& s : measured.settings) {
      if (s.points.empty() || before.points.empty()) continue;
      double log_gain = 0;
      bool gains = false, loses = false;
      for (size_t p = 0; p < points_.size(); ++p) {
        const MeasuredTime &new_time = s.points[p].time, &old_time = before.points[p].time;
        log_gain += std::log(old_time.median / new_time.median) / double(points_.size());
        gains |= clears(new_time, old_time, kMargin);
        loses |= clears(old_time, new_time, kMargin);
      }
      s.gain = std::exp(log_gain);
      if (gains && !loses && s.gain > best->gain) best = &s;
    }
    best->taken = true;
  }

  // The group of what was taken goes on; the others end.
  void take(const Knob& knob, const MeasuredKnob& measured, std::vector<Candidate>& candidates) {
    for (Candidate& c : candidates)
      if (c.group) finish(c.group->barrier());
    for (size_t c = 1; c < candidates.size(); ++c)
      if (measured.settings[c].taken) base_ = std::move(candidates[c].own);
    knob.set(result_.options, measured.taken().value);
  }

  Place& place_;
  const TuneOptions& tune_;
  const std::function<void(const std::string&)>& progress_;
  LinkTuning result_;
  std::unique_ptr<Communicator> base_;
  std::vector<Point> points_;
  double begin_ = 0;
  uint64_t random_ = 1;
};

}  // namespace

const MeasuredSetting& MeasuredKnob::before() const { return settings.front(); }

const MeasuredSetting& MeasuredKnob::taken() const {
  return *std::ranges::find(settings, true, &MeasuredSetting::taken);
}

size_t LinkTuning::wrong() const {
  size_t settings = 0;
  for (const MeasuredKnob& knob : knobs)
    for (const MeasuredSetting& s : knob.settings) settings += s.wrong > 0 ? 1 : 0;
  return settings;
}

std::string print_setting(const MeasuredKnob& knob, size_t value) {
  if (!knob.bytes || value % 1024 != 0) return std::to_string(value);
  return fmt::format("{}K", value / 1024);
}

LinkTuning tune_links(Place& place, const TuneOptions& tune, const Options& options,
                      const std::function<void(const std::string&)>& progress) {
  return LinkTuner(place, tune, options, progress).all();
}

LinkSettings settings_of(const LinkTuning& links) {
  std::string text;
  for (const MeasuredKnob& knob : links.knobs)
    text += fmt::format("{}={} ", knob.name, knob.taken().value);
  return without_defaults(parse_link_settings(text));
}

std::vector<std::string> lines_of(const LinkTuning& links) {
  std::vector<std::string> lines;
  for (const MeasuredKnob& knob : links.knobs) {
    std::string line = knob.name + ":";
    for (const MeasuredSetting& s : knob.settings) {
      line += fmt::format("{} {} {}", &s == &knob.before() ? "" : ",", print_setting(knob, s.value),
                          s.wrong > 0             ? "WRONG RESULTS"
                          : !s.impossible.empty() ? "impossible"
                          : &s == &knob.before()  ? "as set"
                                                  : fmt::format("{:.2f}x", s.gain));
      if (s.taken && &s != &knob.before()) line += " (taken)";
    }
    lines.push_back(line);
    for (const MeasuredSetting& s : knob.settings)
      if (!s.impossible.empty())
        lines.push_back(
            fmt::format("{}={}: {}", knob.name, print_setting(knob, s.value), s.impossible));
  }
  if (const LinkSettings set = settings_of(links); !set.empty())
    lines.push_back(fmt::format(
        "the jobs take {} from the file, unless a variable or option of theirs sets them",
        print(set)));
  return lines;
}

}  // namespace ringwood::tools
