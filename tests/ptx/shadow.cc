#include "tests/ptx/shadow.h"

#include <new>

namespace ringwood::ptx {

// Zeroed pages are made when they are touched.
Shadow::Shadow(uint64_t base, uint64_t bytes, bool written)
    : base_(base & ~uint64_t{3}),
      written_(written),
      cells_(static_cast<Cell*>(std::calloc((base + bytes - base_ + 3) / 4 + 1, sizeof(Cell)))) {
  if (!cells_) throw std::bad_alloc();
}

void Shadow::read_cell(Cell& cell, const Agent& agent, uint32_t line) {
  const Epoch now = agent.now();
  if (cell.read == now) return;
  if (!agent.knows(cell.write))
    throw Conflict{Fault::race, "reads, unordered, what was written by", cell.write,
                   cell.write_line};
  if ((cell.read & kTag) == 0) {
    // A later write that knows this read knows the one before it too.
    if (agent.knows(cell.read)) {
      cell.read = now, cell.read_line = line;
      return;
    }
    if (free_readers_.empty()) {
      free_readers_.push_back(static_cast<uint32_t>(readers_.size()));
      readers_.emplace_back();
    }
    const uint32_t list = free_readers_.back();
    free_readers_.pop_back();
    readers_[list] = {{cell.read, cell.read_line}};
    cell.read = kTag | list;
  }
  std::vector<Trace>& readers = readers_[cell.read & ~kTag];
  if (readers.back().epoch == now) return;
  std::erase_if(readers, [&](const Trace& one) { return agent.knows(one.epoch); });
  readers.push_back({now, line});
}

void Shadow::write_cell(Cell& cell, const Agent& agent, uint32_t line) {
  const Epoch now = agent.now();
  if (cell.write == now && cell.read == 0) return;
  if (!agent.knows(cell.write))
    throw Conflict{Fault::race, "writes, unordered, what was written by", cell.write,
                   cell.write_line};
  constexpr const char* kRead = "writes, unordered, what was read by";
  if ((cell.read & kTag) != 0) {
    const uint32_t list = static_cast<uint32_t>(cell.read & ~kTag);
    for (const Trace& one : readers_[list])
      if (!agent.knows(one.epoch)) throw Conflict{Fault::race, kRead, one.epoch, one.line};
    free_readers_.push_back(list);
  } else if (!agent.knows(cell.read)) {
    throw Conflict{Fault::race, kRead, cell.read, cell.read_line};
  }
  cell.read = 0;
  cell.write = now, cell.write_line = line;
}

void Shadow::access_cell(Cell& cell, const Agent& agent, const Touch& touch) {
  if (touch.writes)
    write_cell(cell, agent, touch.line);
  else
    read_cell(cell, agent, touch.line);
}

void Shadow::access(const Agent& agent, const Touch& touch, std::vector<uint32_t>& words) {
  const uint64_t end = touch.address + touch.bytes;
  for (uint64_t first = touch.address & ~uint64_t{3}; first < end; first += 4) {
    ++checked_;
    Cell& cell = cell_at(first);
    const bool whole = first >= touch.address && first + 4 <= end;
    if ((cell.write & kTag) != 0 || !whole) {
      access_special(cell, first, agent, touch, words);
      continue;
    }
    if (!written_ && !touch.writes && cell.write == 0)
      throw Conflict{Fault::uninitialised, "reads what nobody has written", 0, 0};
    access_cell(cell, agent, touch);
  }
}

void Shadow::access_special(Cell& cell, uint64_t first, const Agent& agent, const Touch& touch,
                            std::vector<uint32_t>& words) {
  Special& parts = special(cell);
  for (uint64_t i = 0; i < 4; ++i) {
    if (first + i < touch.address || first + i >= touch.address + touch.bytes) continue;
    if (touch.writes)
      parts.written |= static_cast<uint8_t>(1 << i);
    else if (!written_ && (parts.written >> i & 1) == 0)
      throw Conflict{Fault::uninitialised, "reads what nobody has written", 0, 0};
    access_cell(parts.bytes[i], agent, touch);
  }
  for (const uint32_t word : parts.words)
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
}

Shadow::Special& Shadow::special(Cell& cell) {
  if ((cell.write & kTag) != 0) return specials_[cell.write & ~kTag];
  Special parts{{cell, cell, cell, cell}, static_cast<uint8_t>(cell.write != 0 ? 15 : 0), {}};
  if ((cell.read & kTag) != 0)
    for (int i = 1; i < 4; ++i) {  // a list each
      parts.bytes[i].read = kTag | readers_.size();
      readers_.push_back(std::vector<Trace>(readers_[cell.read & ~kTag]));
    }
  cell = {kTag | specials_.size(), 0, 0, 0};
  specials_.push_back(std::move(parts));
  return specials_.back();
}

const Shadow::Special* Shadow::special_of(const Cell& cell) const {
  return (cell.write & kTag) != 0 ? &specials_[cell.write & ~kTag] : nullptr;
}

const std::vector<uint32_t>* Shadow::words_at(uint64_t address) const {
  const Special* parts = special_of(cell_at(address));
  return parts != nullptr && !parts->words.empty() ? &parts->words : nullptr;
}

void Shadow::attach(uint32_t word, uint64_t address, uint32_t bytes) {
  for (uint64_t at = address & ~uint64_t{3}; at < address + bytes; at += 4)
    special(cell_at(at)).words.push_back(word);
}

void Shadow::collect(uint64_t address, uint32_t bytes, std::vector<Trace>& writes,
                     std::vector<Trace>& reads) const {
  for (uint64_t at = address; at < address + bytes; ++at) {
    const Cell* cell = &cell_at(at);
    if (const Special* parts = special_of(*cell)) cell = &parts->bytes[at & 3];
    if (cell->write != 0) writes.push_back({cell->write, cell->write_line});
    if ((cell->read & kTag) != 0)
      reads.insert(reads.end(), readers_[cell->read & ~kTag].begin(),
                   readers_[cell->read & ~kTag].end());
    else if (cell->read != 0)
      reads.push_back({cell->read, cell->read_line});
  }
}

bool Shadow::is_written(uint64_t address, uint32_t bytes) const {
  if (written_) return true;
  for (uint64_t at = address; at < address + bytes; ++at) {
    const Cell& cell = cell_at(at);
    const Special* parts = special_of(cell);
    if (parts != nullptr ? (parts->written >> (at & 3) & 1) == 0 : cell.write == 0) return false;
  }
  return true;
}

void Shadow::set_written(uint64_t address, uint32_t bytes) {
  if (written_) return;
  for (uint64_t at = address; at < address + bytes; ++at)
    special(cell_at(at)).written |= static_cast<uint8_t>(1 << (at & 3));
}

}  // namespace ringwood::ptx
