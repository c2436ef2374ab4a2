#include "tests/ptx/words.h"

#include <cstring>

namespace ringwood::ptx {
namespace {

// A thread that nobody knows anything of.
constexpr Epoch kOutside = Epoch{0x7fffff} << 32 | 1;

bool acquires(Order order) { return order == Order::acquire || order >= Order::acq_rel; }
bool releases(Order order) { return order >= Order::release; }

// Only what is unordered to each other.
void remember(std::vector<Trace>& traces, const Agent& agent, uint32_t line) {
  std::erase_if(traces, [&](const Trace& one) { return agent.knows(one.epoch); });
  traces.push_back({agent.now(), line});
}

void expect_known(const Agent& agent, const std::vector<Trace>& traces, Fault::Kind kind,
                  const char* what) {
  for (const Trace& one : traces)
    if (!agent.knows(one.epoch)) throw Conflict{kind, what, one.epoch, one.line};
}

}  // namespace

uint64_t Words::value_now(const Word& word) const {
  uint64_t value = 0;
  std::memcpy(&value, delta_ + (word.address - base_), word.bytes);
  return value;
}

Words::Word& Words::word_of(const Strong& access) {
  const std::vector<uint32_t>* here = shadow_.words_at(access.address);
  if (here != nullptr)
    for (const uint32_t i : *here)
      if (words_[i].address == access.address && words_[i].bytes == access.bytes) return words_[i];
  Word word;
  word.address = access.address, word.bytes = access.bytes;
  for (uint64_t at = access.address & ~uint64_t{3}; at < access.address + access.bytes; at += 4)
    if (const auto* others = shadow_.words_at(at))
      for (const uint32_t i : *others) word.alone = words_[i].alone = false;
  shadow_.collect(access.address, access.bytes, word.weak_writes, word.weak_reads);
  shadow_.attach(static_cast<uint32_t>(words_.size()), access.address, access.bytes);
  word.history.push_back({value_now(word), 0, {}, Scope::sys, false, 0, nullptr});
  words_.push_back(std::move(word));
  return words_.back();
}

void Words::find_outside_write(Word& word) {
  const uint64_t value = value_now(word);
  if (value == word.history.back().value) return;
  const Epoch by = word.outside != 0 ? word.outside : kOutside;
  word.outside = 0;
  word.history.push_back({value, by, {}, Scope::sys, false, 0, nullptr});
}

void Words::check_others(const Agent& agent, const Strong& access, const Word& word, bool writes) {
  if (word.alone) return;
  const Touch touch{access.address, access.bytes, writes, access.line};
  for (uint64_t at = access.address & ~uint64_t{3}; at < access.address + access.bytes; at += 4)
    for (const uint32_t i : *shadow_.words_at(at))
      if (&words_[i] != &word) check_weak(agent, touch, i);
}

void Words::check_scopes(const Agent& agent, const Strong& access, const Word& word,
                         bool writes) const {
  constexpr const char* kWhat = "is unordered, and outside the scope of one of both, with";
  for (const Message& message : word.history) {
    if (agent.knows(message.epoch) || message.epoch == kOutside) continue;
    const Scope needed = scope_of(agent.place, message.place);
    if (access.scope < needed || message.scope < needed || message.weak)
      throw Conflict{Fault::scope, kWhat, message.epoch, message.line};
  }
  if (!writes) return;
  for (const Reader& reader : word.readers)
    for (const Seen& seen : reader.seen) {
      const Epoch epoch = epoch_of(reader.thread, seen.tick);
      const Scope needed = scope_of(agent.place, reader.place);
      if (!agent.knows(epoch) && (access.scope < needed || seen.scope < needed))
        throw Conflict{Fault::scope, kWhat, epoch, seen.line};
    }
}

Words::Word& Words::checked_word(Agent& agent, const Strong& access, bool writes) {
  Word& word = word_of(access);
  find_outside_write(word);
  if (!writes && !shadow_.is_written(access.address, access.bytes))
    throw Conflict{Fault::uninitialised, "reads what nobody has written", 0, 0};
  expect_known(agent, word.weak_writes, Fault::race, "is unordered with the weak write of");
  if (writes)
    expect_known(agent, word.weak_reads, Fault::race, "is unordered with the weak read of");
  check_others(agent, access, word, writes);
  word.narrow |= access.scope != Scope::sys;
  if (word.narrow) check_scopes(agent, access, word, writes);
  return word;
}

uint32_t Words::oldest_visible(const Agent& agent, const Word& word) const {
  uint32_t oldest = static_cast<uint32_t>(word.history.size()) - 1;
  while (oldest > 0 && !agent.knows(word.history[oldest].epoch)) --oldest;
  for (const Reader& reader : word.readers) {
    const uint32_t known = agent.clock.of(reader.thread);
    for (auto seen = reader.seen.rbegin(); seen != reader.seen.rend(); ++seen)
      if (seen->tick <= known) {
        oldest = std::max(oldest, seen->index);
        break;
      }
  }
  return oldest;
}

void Words::note_read(Agent& agent, const Strong& access, Word& word, uint32_t index) {
  const uint32_t tick = agent.clock.of(agent.id);
  auto reader = std::ranges::find(word.readers, agent.id, &Reader::thread);
  if (reader == word.readers.end()) {
    word.readers.push_back({agent.id, agent.place, {}});
    reader = word.readers.end() - 1;
  }
  reader->place = agent.place;
  const bool is_new = reader->seen.empty() || reader->seen.back().index < index;
  agent.polls = is_new ? 0 : agent.polls + 1;
  if (reader->seen.empty() || reader->seen.back().tick != tick) {
    reader->seen.push_back({tick, index, access.line, access.scope});
    return;
  }
  Seen& last = reader->seen.back();
  last.index = std::max(last.index, index);
  last.scope = std::min(last.scope, access.scope);
}

void Words::receive(Agent& agent, const Strong& access, const Message& message) {
  if (!message.published) return;
  for (const Published& one : *message.published) {
    const Scope needed = scope_of(agent.place, one.place);
    if (one.scope < needed) continue;
    if (one.by != 0 && agent.knows(one.by)) continue;
    if (acquires(access.order) && access.scope >= needed) {
      agent.clock.join(*one.clock);
      continue;
    }
    Clock& pending = agent.pending[static_cast<int>(needed)];
    if (one.by == 0 || !pending.knows(one.by)) pending.join(*one.clock);
  }
}

uint64_t Words::load(Agent& agent, const Strong& access, Random& random) {
  Word& word = checked_word(agent, access, false);
  const uint32_t last = static_cast<uint32_t>(word.history.size()) - 1;
  const uint32_t oldest = oldest_visible(agent, word);
  uint32_t pick = last;
  if (oldest != last && random.below(2) == 0) pick = oldest + random.below(last - oldest + 1);
  stale_ += pick != last;
  note_read(agent, access, word, pick);
  const Message& message = word.history[pick];
  receive(agent, access, message);
  return message.value;
}

std::shared_ptr<const Publications> Words::published(Agent& agent, const Strong& access,
                                                     const Message* before) {
  Publications all;
  if (before != nullptr && before->published) all = *before->published;
  for (int scope = 0; scope < 3; ++scope) {
    const bool again = scope < 2 && agent.fenced[scope] == agent.fenced[scope + 1];
    if (agent.fenced[scope] && !again)
      all.push_back(
          {agent.place, static_cast<Scope>(scope), agent.fenced_at[scope], agent.fenced[scope]});
  }
  if (releases(access.order)) {
    all.push_back(
        {agent.place, access.scope, agent.now(), std::make_shared<const Clock>(agent.clock)});
    agent.next_tick();
  }
  // What somebody of the same place published earlier, and this thread knows, is in the later.
  if (before != nullptr && !all.empty())
    std::erase_if(all, [&](const Published& one) {
      return &one != &all.back() && one.scope <= all.back().scope && one.by != 0 &&
             one.place.block == all.back().place.block && all.back().clock->knows(one.by);
    });
  return all.empty() ? nullptr : std::make_shared<const Publications>(std::move(all));
}

void Words::append(Agent& agent, const Strong& access, Word& word, uint64_t value, bool modifies) {
  const Epoch now = agent.now();
  agent.polls = 0;
  std::memcpy(delta_ + (word.address - base_), &value, word.bytes);
  shadow_.set_written(access.address, access.bytes);
  const Message* before = modifies ? &word.history.back() : nullptr;
  auto with = published(agent, access, before);
  word.history.push_back(
      {value_now(word), now, agent.place, access.scope, false, access.line, std::move(with)});
  const auto mine = std::ranges::find_if(
      word.writers, [&](const Trace& one) { return thread_of(one.epoch) == agent.id; });
  if (mine != word.writers.end())
    *mine = {now, access.line};
  else
    word.writers.push_back({now, access.line});
  if (word.alone) return;
  for (uint64_t at = access.address & ~uint64_t{3}; at < access.address + access.bytes; at += 4)
    for (const uint32_t i : *shadow_.words_at(at))
      if (&words_[i] != &word) note_weak_write(agent, i, access.line);
}

void Words::store(Agent& agent, const Strong& access, uint64_t value) {
  append(agent, access, checked_word(agent, access, true), value, false);
}

Words::Word& Words::newest(Agent& agent, const Strong& access) {
  Word& word = checked_word(agent, access, true);
  if (!shadow_.is_written(access.address, access.bytes))
    throw Conflict{Fault::uninitialised, "reads what nobody has written", 0, 0};
  const uint32_t last = static_cast<uint32_t>(word.history.size()) - 1;
  note_read(agent, access, word, last);
  receive(agent, access, word.history[last]);
  return word;
}

void Words::check_weak(const Agent& agent, const Touch& touch, uint32_t index) {
  Word& word = words_[index];
  expect_known(agent, word.writers, Fault::race, "is unordered with the strong write of");
  if (!touch.writes) {
    remember(word.weak_reads, agent, touch.line);
    return;
  }
  for (const Reader& reader : word.readers) {
    const Seen& last = reader.seen.back();
    if (!agent.knows(epoch_of(reader.thread, last.tick)))
      throw Conflict{Fault::race, "is unordered with the strong read of",
                     epoch_of(reader.thread, last.tick), last.line};
  }
  remember(word.weak_writes, agent, touch.line);
}

void Words::note_weak_write(const Agent& agent, uint32_t index, uint32_t line) {
  Word& word = words_[index];
  word.history.push_back(
      {value_now(word), agent.now(), agent.place, Scope::sys, true, line, nullptr});
}

void Fences::fence(Agent& agent, Order order, Scope scope) {
  const int width = static_cast<int>(scope);
  if (order != Order::release)
    for (int i = 0; i <= width; ++i) agent.clock.join(agent.pending[i]);
  if (order == Order::acquire) return;
  if (order == Order::sc) {
    Consistent* mine = nullptr;
    for (Consistent& other : consistent_) {
      const Scope needed = scope_of(agent.place, other.place);
      if (other.place.block == agent.place.block && other.scope == scope) mine = &other;
      if (scope >= needed && other.scope >= needed) agent.clock.join(other.clock);
    }
    if (mine == nullptr) mine = &consistent_.emplace_back(agent.place, scope, Clock{});
    mine->clock.join(agent.clock);
  }
  const auto clock = std::make_shared<const Clock>(agent.clock);
  for (int i = 0; i <= width; ++i) agent.fenced[i] = clock, agent.fenced_at[i] = agent.now();
  agent.next_tick();
}

}  // namespace ringwood::ptx
