#include "collectives/recorder/trace_dump.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/kernels/types.h"
#include "collectives/kernels/wire.h"
#include "transports/base/error.h"
#include "transports/base/host.h"

namespace ringwood {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

const char* end_of(RecordedEnd end) {
  switch (end) {
    case RecordedEnd::running: return "running";
    case RecordedEnd::done: return "done";
    case RecordedEnd::failed: return "failed";
  }
  return "?";
}

void print(fmt::memory_buffer& out, const OperationRecord& r) {
  const Fingerprint& f = r.call;
  fmt::format_to(
      std::back_inserter(out),
      R"({{"sequence":{},"collective":"{}","type":"{}","op":"{}","root":{},"count":{},"bytes":{},)"
      R"("algorithm":"{}","segments":{},"wire":"{}","priority":{},"track":{},"packed":{},)"
      R"("entered_ns":{},"begun_ns":{},"agreed_ns":{},"ended_ns":{},"waiting_ns":{},)"
      R"("waited_for":{},"predicted_s":{},"steps":{},"end":"{}"}})",
      f.sequence, to_string(static_cast<Collective>(f.collective)),
      to_string(static_cast<DataType>(f.type)), to_string(static_cast<ReduceOp>(f.op)), f.root,
      f.count, r.bytes, algorithm_of(f), f.segments, to_string(static_cast<WireFormat>(f.wire)),
      static_cast<int>(f.priority), r.track, f.even == Fingerprint::kPacked, r.entered_ns,
      r.begun_ns, r.agreed_ns, r.ended_ns, r.waiting_ns, r.waited_for, r.predicted_seconds, r.steps,
      end_of(r.end));
}

void print(fmt::memory_buffer& out, const StepRecord& s) {
  fmt::format_to(std::back_inserter(out), "[{},{},{},{},{},{},{}]", s.sequence, s.step, s.kind,
                 s.peer, s.bytes, s.posted_ns, s.completed_ns);
}

template <class List>
void print_list(fmt::memory_buffer& out, const char* name, const List& list) {
  fmt::format_to(std::back_inserter(out), ",\n\"{}\":[", name);
  bool first = true;
  for (const auto& one : list) {
    out.append(std::string_view(first ? "\n" : ",\n"));
    first = false;
    print(out, one);
  }
  out.push_back(']');
}

}  // namespace

std::string print_dump(const Recorder& recorder, const std::vector<ClockSample>& clock,
                       const std::string& machine, const std::string& error) {
  const RecordedGroup& group = recorder.group();
  fmt::memory_buffer out;
  fmt::format_to(
      std::back_inserter(out),
      "{{\"format\":\"ringwood-trace-1\",\"group\":{},\"session\":{},\"rank\":{},"
      "\"size\":{},\"hosts\":[{}],\n\"host\":{},\"machine\":{},\"error\":{},\"now_ns\":{},"
      "\n\"clock\":[",
      quoted(group.name), quoted(group.session), group.rank, group.size,
      fmt::join(group.hosts, ","), quoted(host_name()), quoted(machine), quoted(error), clock_ns());
  for (size_t i = 0; i < clock.size(); ++i)
    fmt::format_to(std::back_inserter(out), "{}[{},{},{}]", i ? "," : "", clock[i].at_ns,
                   clock[i].offset_ns, clock[i].uncertainty_ns);
  out.append(std::string_view("],\n\"ways\":["));
  for (size_t rank = 0; rank < group.ways.size(); ++rank)
    fmt::format_to(std::back_inserter(out), "{}{}", rank ? "," : "", quoted(group.ways[rank]));
  out.push_back(']');
  const std::vector<OperationRecord> operations = recorder.latest();
  print_list(out, "operations", operations);
  print_list(out, "running", recorder.running());
  print_list(out, "steps", recorder.latest_steps());
  out.append(std::string_view("}\n"));
  return fmt::to_string(out);
}

// The folder is made where it is missing.
void write_whole(const std::string& path, const std::string& text) {
  std::error_code refused;  // then opening the file fails, and tells
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), refused);
  const std::string fresh = fmt::format("{}.{}", path, getpid());
  std::FILE* const file = std::fopen(fresh.c_str(), "we");
  bool well = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  well = file && std::fclose(file) == 0 && well;
  if (well && std::rename(fresh.c_str(), path.c_str()) == 0) return;
  const std::string why = system_message("it cannot be written");
  if (file) (void)std::remove(fresh.c_str());
  throw Error(ErrorCode::system, fmt::format("{}: {}", path, why));
}

}  // namespace ringwood
