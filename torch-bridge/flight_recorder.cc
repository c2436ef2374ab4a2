#include "torch-bridge/flight_recorder.h"

#include <torch/csrc/jit/serialization/pickler.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <set>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "transports/base/log.h"

namespace ringwood {

namespace {

// Of the form of the dump, as in torch 2.11 to 2.14.
constexpr const char* kVersion = "2.10";
constexpr int64_t kMaxCalls = 1 << 20;
// torchfrtrace takes the names of known libraries only; gloo's is that of calls on the CPU.
constexpr const char* kLibrary = "gloo";

enum class State : uint32_t { started, completed, failed };

using Dict = c10::Dict<c10::IValue, c10::IValue>;
using Values = c10::List<c10::IValue>;
Dict new_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }
Values new_list() { return Values(c10::AnyType::get()); }

std::string pickled(const c10::IValue& value) {
  std::string text;
  torch::jit::Pickler pickler([&](const char* data, size_t size) { text.append(data, size); },
                              nullptr, nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  return text;
}

size_t calls_to_keep() {
  const int64_t wanted =
      c10d::getCvarInt({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, 2000);
  return static_cast<size_t>(std::clamp<int64_t>(wanted, 0, kMaxCalls));
}

}  // namespace

// A sequence lock: `id` is 0 while the record is written. Words are atomic, so that a reader may
// see a slot that is being written, and notice.
struct FlightRecorder::Slot {
  static constexpr size_t kWords = (sizeof(Record) + 7) / 8;

  std::atomic<uint64_t> id, ended;
  std::atomic<State> state;
  std::atomic<int> source;
  std::array<std::atomic<uint64_t>, kWords> words;
};

// What a reader has copied.
struct FlightRecorder::Taken {
  uint64_t id = 0, ended = 0;
  State state = State::started;
  int source = -1;
  Record record;
};

void FlightRecorder::Record::add(c10::ScalarType type, at::IntArrayRef shape, bool input) {
  const size_t of_side = tensors - (input ? 0 : inputs);
  const size_t sizes_of_side = sizes - (input ? 0 : input_sizes);
  if (of_side >= kMaxOfSide || sizes_of_side + shape.size() > kMaxSizesOfSide) return;
  types[tensors] = type;
  dimensions[tensors++] = static_cast<uint8_t>(shape.size());
  for (const int64_t extent : shape) size[sizes++] = extent;
  if (!input) return;
  inputs = tensors;
  input_sizes = sizes;
}

void FlightRecorder::Record::add_list(const List& list, bool input) {
  for (const at::Tensor& tensor : list) add(tensor.scalar_type(), tensor.sizes(), input);
}

// Equal tensors as one with a further dimension; others by their elements.
void FlightRecorder::Record::add_in_one(const List& list, bool input) {
  if (list.empty()) return;
  const at::IntArrayRef shape = list[0].sizes();
  const bool equal =
      std::all_of(list.begin(), list.end(), [&](const auto& t) { return t.sizes() == shape; });
  std::array<int64_t, kMaxSizesOfSide> joined;
  if (!equal || shape.size() + 1 > joined.size()) return add_flat(list, input);
  joined[0] = static_cast<int64_t>(list.size());
  std::copy(shape.begin(), shape.end(), joined.begin() + 1);
  add(list[0].scalar_type(), {joined.data(), shape.size() + 1}, input);
}

void FlightRecorder::Record::add_flat(const List& list, bool input) {
  if (list.empty()) return;
  int64_t elements = 0;
  for (const at::Tensor& tensor : list) elements += tensor.numel();
  add(list[0].scalar_type(), elements, input);
}

FlightRecorder& FlightRecorder::instance() {
  static auto* recorder = new FlightRecorder;
  return *recorder;
}

FlightRecorder::FlightRecorder()
    : size_(calls_to_keep()),
      slots_(size_ > 0 ? static_cast<Slot*>(std::calloc(size_, sizeof(Slot))) : nullptr) {
  if (size_ > 0 && !slots_) throw std::bad_alloc();
}

int FlightRecorder::add_group(Group group) {
  const std::lock_guard lock(mutex_);
  if (groups_.many_ended()) {
    std::set<int> kept;
    for (const Taken& one : taken()) kept.insert(one.record.call.group);
    groups_.forget_ended_but(kept);
  }
  return groups_.add(std::move(group));
}

void FlightRecorder::end_group(int group) noexcept try {
  const std::lock_guard lock(mutex_);
  groups_.end(group);
} catch (const std::bad_alloc&) {
  // Its name is kept.
}

FlightRecorder::Ticket FlightRecorder::begin(const Call& call, const List& inputs,
                                             const List& outputs) {
  if (!on()) return {};
  Record record;
  record.call = call;
  record.began = c10::getApproximateTime();
  record.inputs = record.tensors = record.sizes = record.input_sizes = 0;
  switch (call.shape) {
    case Shape::as_is:
      record.add_list(inputs, true);
      record.add_list(outputs, false);
      break;
    case Shape::outputs_in_one:
      record.add_list(inputs, true);
      record.add_in_one(outputs, false);
      break;
    case Shape::inputs_in_one:
      record.add_in_one(inputs, true);
      record.add_list(outputs, false);
      break;
    case Shape::both_flat:
      record.add_flat(inputs, true);
      record.add_flat(outputs, false);
      break;
  }
  const uint64_t id = next_.fetch_add(1, std::memory_order_relaxed) + 1;
  Slot& slot = slots_[id % size_];
  slot.id.store(0, std::memory_order_relaxed);
  const size_t used = offsetof(Record, size) + record.sizes * sizeof(int64_t);
  const char* from = reinterpret_cast<const char*>(&record);
  for (size_t i = 0; i * 8 < used; ++i) {
    uint64_t word;
    std::memcpy(&word, from + i * 8, sizeof word);
    slot.words[i].store(word, std::memory_order_release);
  }
  slot.ended.store(0, std::memory_order_release);
  slot.source.store(call.peer, std::memory_order_release);
  slot.state.store(State::started, std::memory_order_release);
  slot.id.store(id, std::memory_order_release);
  return {id, 0};
}

void FlightRecorder::end(Ticket ticket, bool well, int source) {
  if (ticket.id == 0) return;
  Slot& slot = slots_[ticket.id % size_];
  if (slot.id.load(std::memory_order_acquire) != ticket.id) return;
  slot.ended.store(c10::getApproximateTime(), std::memory_order_relaxed);
  if (source >= 0) slot.source.store(source, std::memory_order_relaxed);
  slot.state.store(well ? State::completed : State::failed, std::memory_order_release);
}

std::vector<FlightRecorder::Taken> FlightRecorder::taken() const {
  std::vector<Taken> all;
  for (size_t i = 0; i < size_; ++i) {
    const Slot& slot = slots_[i];
    Taken one;
    one.id = slot.id.load(std::memory_order_acquire);
    if (one.id == 0) continue;
    one.state = slot.state.load(std::memory_order_acquire);
    one.ended = slot.ended.load(std::memory_order_acquire);
    one.source = slot.source.load(std::memory_order_acquire);
    std::array<uint64_t, Slot::kWords> words;
    for (size_t w = 0; w < words.size(); ++w)
      words[w] = slot.words[w].load(std::memory_order_acquire);
    if (slot.id.load(std::memory_order_relaxed) != one.id) continue;
    std::memcpy(static_cast<void*>(&one.record), words.data(), sizeof one.record);
    all.push_back(one);
  }
  std::ranges::sort(all, {}, &Taken::id);
  return all;
}

c10::IValue FlightRecorder::entry(const Taken& taken,
                                  const std::function<int64_t(uint64_t)>& clock) const {
  const auto& [id, ended, state, source, record] = taken;
  const Call& call = record.call;
  const Group& group = groups_.all().at(call.group);
  Values sizes[2] = {new_list(), new_list()};
  std::vector<std::string> types[2];
  const int64_t* extent = record.size.data();
  for (int i = 0; i < record.tensors; ++i) {
    const int side = i < record.inputs ? 0 : 1;
    Values shape = new_list();
    for (int d = 0; d < record.dimensions[i]; ++d) shape.push_back(*extent++);
    sizes[side].push_back(shape);
    types[side].emplace_back(c10::toString(record.types[i]));
  }
  std::string name = std::string(kLibrary) + ":" + call.name;
  if (call.message) name += c10::str(" ", group.rank, call.name[0] == 's' ? "->" : "<-", source);
  const int64_t began = clock(record.began);
  const c10::IValue end = state == State::started ? c10::IValue() : c10::IValue(clock(ended));
  Dict dict = new_dict();
  dict.insert("record_id", static_cast<int64_t>(id - 1));
  dict.insert("pg_id", static_cast<int64_t>(call.group));
  dict.insert("process_group", std::make_tuple(group.name, group.description));
  dict.insert("collective_seq_id", static_cast<int64_t>(call.message ? 0 : call.number));
  dict.insert("p2p_seq_id", static_cast<int64_t>(call.message ? call.number : 0));
  dict.insert("op_id", static_cast<int64_t>(call.op));
  dict.insert("profiling_name", name);
  dict.insert("time_created_ns", began);
  dict.insert("input_sizes", sizes[0]);
  dict.insert("input_dtypes", types[0]);
  dict.insert("output_sizes", sizes[1]);
  dict.insert("output_dtypes", types[1]);
  dict.insert("state", state == State::completed ? "completed" : "started");
  dict.insert("time_discovered_started_ns", began);
  dict.insert("time_discovered_completed_ns", state == State::completed ? end : c10::IValue());
  if (state == State::completed)
    dict.insert("duration_ms", static_cast<double>(end.toInt() - began) / 1e6);
  dict.insert("retired", state != State::started);
  dict.insert("timeout_ms", static_cast<int64_t>(call.timeout.count()));
  dict.insert("is_p2p", call.message);
  dict.insert("frames", new_list());
  dict.insert("thread_id", "");
  dict.insert("thread_name", "");
  return dict;
}

std::string FlightRecorder::dump(bool calls, bool only_active) {
  const std::vector<Taken> all = taken();
  const auto convert = clock_.makeConverter();
  const std::lock_guard lock(mutex_);
  Dict groups = new_dict(), status = new_dict();
  std::map<int, std::array<int64_t, 2>> last;  // by group: begun, completed
  for (const auto& [number, group] : groups_.all()) last[number] = {-1, -1};
  Values entries = new_list();
  for (const Taken& one : all) {
    const Call& call = one.record.call;
    const auto of_group = last.find(call.group);
    if (of_group == last.end()) continue;  // forgotten meanwhile, and so is the call
    auto& [begun, completed] = of_group->second;
    const auto number = static_cast<int64_t>(call.number);
    if (!call.message) begun = std::max(begun, number);
    if (!call.message && one.state == State::completed) completed = std::max(completed, number);
    if (calls && !(only_active && one.state == State::completed))
      entries.push_back(entry(one, convert));
  }
  for (const auto& [i, group] : groups_.all()) {
    Dict config = new_dict(), state = new_dict();
    config.insert("name", group.name);
    config.insert("desc", group.description);
    config.insert("ranks", c10::str("[", c10::Join(", ", group.ranks), "]"));
    groups.insert(group.name, config);
    state.insert("last_enqueued_collective", last[i][0]);
    state.insert("last_started_collective", last[i][0]);
    state.insert("last_completed_collective", last[i][1]);
    status.insert(std::to_string(i), state);
  }
  Dict whole = new_dict();
  whole.insert("version", kVersion);
  whole.insert("comm_lib_version", "ringwood " RINGWOOD_VERSION);
  whole.insert("pg_config", groups);
  whole.insert("pg_status", status);
  if (calls) whole.insert("entries", entries);
  return pickled(whole);
}

void FlightRecorder::dump_failure(uint64_t rank_in_job) noexcept {
  try {
    const std::string prefix =
        c10d::getCvarString({"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}, "");
    if (prefix.empty() || !on()) return;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(failure_written_, true)) return;
    }
    const std::string file = prefix + std::to_string(rank_in_job);
    std::ofstream out(file, std::ios::binary);
    if (out << dump(true, false) << std::flush)
      log(LogLevel::info, "flight recorder", "the last calls of this rank are in " + file);
    else
      log(LogLevel::warn, "flight recorder", file + " cannot be written");
  } catch (const std::exception& error) {
    log(LogLevel::warn, "flight recorder", error.what());
  }
}

}  // namespace ringwood
