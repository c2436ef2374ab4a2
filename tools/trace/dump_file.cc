#include "tools/trace/dump_file.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "transports/base/bytes.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr uintmax_t kMaxFile = 64 << 20;
constexpr int kMaxSize = 16384;
constexpr size_t kMaxClockSamples = 4096, kMaxWay = 400, kMaxRunning = 64;
// Of times and of what one clock is ahead of another: 36 years.
constexpr int64_t kMaxTime = int64_t{1} << 60;

std::string text_of(const std::string& file) {
  std::error_code failed;
  const uintmax_t bytes = fs::file_size(file, failed);
  if (failed) refuse_dump(file, "cannot be read: " + failed.message());
  if (bytes > kMaxFile) refuse_dump(file, "is larger than any file of RINGWOOD_TRACE_DIR");
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

}  // namespace

void refuse_dump(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", file, why));
}

int number_in(const Json& json, const char* key, int least, int most) {
  const auto value = json.at(key).get<int64_t>();
  if (value < least || value > most) throw std::runtime_error(fmt::format("{} is {}", key, value));
  return static_cast<int>(value);
}

int64_t time_in(const Json& json) {
  const auto value = json.get<int64_t>();
  if (value < 0 || value > kMaxTime) throw std::runtime_error("a time is out of range");
  return value;
}

RankClock::RankClock(const Json& samples) {
  if (samples.size() > kMaxClockSamples) throw std::runtime_error("has too many clock samples");
  for (const Json& one : samples) {
    const auto offset = one.at(1).get<int64_t>();
    if (offset < -kMaxTime || offset > kMaxTime)
      throw std::runtime_error("the offset of a clock is out of range");
    samples_.push_back({time_in(one.at(0)), offset, time_in(one.at(2))});
  }
  std::ranges::sort(samples_, {}, &Sample::at);
}

int64_t RankClock::to_root(int64_t ns) const {
  if (samples_.empty()) return ns;
  const auto after =
      std::ranges::find_if(samples_, [&](const Sample& sample) { return sample.at >= ns; });
  if (after == samples_.begin()) return ns + samples_.front().offset;
  if (after == samples_.end()) return ns + samples_.back().offset;
  const Sample& before = *std::prev(after);
  const double part =
      static_cast<double>(ns - before.at) / static_cast<double>(after->at - before.at);
  return ns + before.offset +
         static_cast<int64_t>(part * static_cast<double>(after->offset - before.offset));
}

double RankClock::uncertainty() const {
  int64_t most = 0;
  for (const Sample& sample : samples_) most = std::max(most, sample.uncertainty);
  return 1e-9 * static_cast<double>(most);
}

namespace {

std::vector<RunningCall> running_in(const Json& json, int size) {
  std::vector<RunningCall> calls;
  const int64_t now = json.contains("now_ns") ? time_in(json.at("now_ns")) : 0;
  for (const Json& one : json.value("running", Json::array())) {
    if (calls.size() == kMaxRunning) throw std::runtime_error("has too many running operations");
    RunningCall& call = calls.emplace_back();
    call.sequence = time_in(one.at("sequence"));
    call.name =
        printable(fmt::format("{} {} x {}", one.at("collective").get<std::string>(),
                              one.at("type").get<std::string>(), one.at("count").get<uint64_t>()));
    const int64_t begun = time_in(one.at("begun_ns"));
    call.seconds =
        1e-9 * static_cast<double>(now - (begun ? begun : time_in(one.at("waiting_ns"))));
    call.agreed = time_in(one.at("agreed_ns")) != 0;
    call.waited_for = number_in(one, "waited_for", -1, size - 1);
  }
  return calls;
}

void read_fields(const Json& json, DumpHead& head) {
  if (!json.is_object() || json.value("format", "") != "ringwood-trace-1")
    throw std::runtime_error("has not the records of a rank, as RINGWOOD_TRACE_DIR leaves them");
  head.group = json.at("group").get<std::string>();
  head.session = json.at("session").get<std::string>();
  head.host = printable(json.at("host").get<std::string>());
  head.machine = json.at("machine").get<std::string>();
  head.error = printable(json.at("error").get<std::string>());
  head.size = number_in(json, "size", 1, kMaxSize);
  head.rank = number_in(json, "rank", 0, head.size - 1);
  head.hosts = json.at("hosts").get<std::vector<int>>();
  for (const Json& way : json.value("ways", Json::array())) {
    head.ways.push_back(printable(way.get<std::string>()));
    if (head.ways.back().size() > kMaxWay) throw std::runtime_error("has a way that is too long");
  }
  head.clock = RankClock(json.at("clock"));
  head.running = running_in(json, head.size);
}

DumpHead head_in(const std::string& name, const std::string& text) {
  const auto wanted = [](int depth, Json::parse_event_t event, const Json& parsed) {
    return depth != 1 || event != Json::parse_event_t::key ||
           (parsed != "operations" && parsed != "steps");
  };
  DumpHead head;
  head.file = name;
  try {
    read_fields(Json::parse(text, wanted, false), head);
  } catch (const std::exception& error) {
    refuse_dump(name, error.what());
  }
  if (head.hosts.size() != static_cast<size_t>(head.size))
    refuse_dump(name, "has not one host for each rank");
  if (!head.ways.empty() && head.ways.size() != head.hosts.size())
    refuse_dump(name, "has not one way for each rank");
  return head;
}

}  // namespace

DumpHead read_head(const std::string& file) {
  DumpHead head = head_in(file, text_of(file));
  std::error_code failed;
  head.written = fs::last_write_time(file, failed);
  return head;
}

DumpHead read_head_of(const std::string& name, std::string text) {
  DumpHead head = head_in(name, text);
  head.text = std::make_shared<const std::string>(std::move(text));
  return head;
}

Json read_records(const DumpHead& head) {
  Json json = Json::parse(head.text ? *head.text : text_of(head.file), nullptr, false);
  if (!json.is_object()) refuse_dump(head.file, "has changed while it was read");
  return json;
}

}  // namespace ringwood::tools
