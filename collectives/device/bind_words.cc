#include "collectives/device/bind_words.h"

#include <algorithm>
#include <deque>

#include "collectives/plan/chunk_layout.h"
#include "collectives/plan/passes.h"
#include "collectives/schedule/compose.h"

namespace ringwood::device {
namespace {

// 4 bytes of data in a packet of 8; whole elements and whole 16 bytes.
uint64_t packet_bytes_of(uint64_t bytes) { return (bytes + 7) / 8 * 16; }

// Where the chunks of one rank lie in every segment.
class RankLayout final {
 public:
  struct At {
    Space space = Space::input;
    uint64_t offset = 0, bytes = 0;
  };

  RankLayout(const Schedule& flat, const CollectiveArgs& args, int segment_count)
      : args_(args),
        at_{flat.rank, flat.n, args.root},
        users_(flat.chunks),
        scratch_(static_cast<int>(flat.scratch.size())),
        segments_(segment_count),
        layout_(flat, segments(without_steps(flat), segment_count), args, segment_count) {}

  uint64_t scratch_bytes() const { return layout_.scratch_bytes(); }
  const GroupRank& rank() const { return at_; }
  int users() const { return users_; }

  // The same chunk in the user's memory, whose blocks may be larger.
  uint64_t in_user(int segment, int chunk, bool written, size_t user_block) const {
    const At within = at(segment, {chunk, 1}, written);
    if (user_block == 0 || !in_blocks(args_.collective)) return within.offset;
    const uint64_t block = args_.count * size_of(args_.type);
    return within.offset / block * (user_block * size_of(args_.type)) + within.offset % block;
  }

  At at(int segment, Span span, bool written) const {
    const bool scratch = span.first >= users_;
    span.first = scratch ? users_ * segments_ + segment * scratch_ + (span.first - users_)
                         : segment * users_ + span.first;
    const Place place = layout_.place(span);
    const At within{Space::scratch, place.offset, layout_.bytes(span)};
    return scratch ? within : in_buffer(place.buffer, within, written);
  }

 private:
  static Schedule without_steps(Schedule flat) {
    flat.steps.clear();
    return flat;
  }
  // Blocks lie one after the other.
  uint64_t before(int first, int block) const {
    uint64_t count = 0;
    for (int c = first; c < block; ++c)
      count += args_.blocks.empty()
                   ? args_.count
                   : args_.blocks[static_cast<size_t>(block_of_chunk(args_.collective, at_, c))];
    return count * size_of(args_.type);
  }
  At in_buffer(int buffer, At within, bool written) const {
    switch (traits_of(args_.collective).chunks) {
      case Chunks::outputs:
        // A rank's own block never changes: it is read where the user has it.
        within.space = buffer == at_.rank && !written ? Space::input : Space::output;
        if (within.space == Space::output) within.offset += before(0, buffer);
        return within;
      case Chunks::inputs_and_output:
      case Chunks::inputs_and_outputs:
        within.space = buffer < at_.n ? Space::input : Space::output;
        within.offset += before(buffer < at_.n ? 0 : at_.n, buffer);
        return within;
      default: within.space = Space::input; return within;
    }
  }

  const CollectiveArgs& args_;
  const GroupRank at_;
  const int users_, scratch_, segments_;
  const ChunkLayout layout_;
};

class Binder final {
 public:
  Binder(const ProvedProgram& proved, int rank, const CollectiveArgs& args, int segment_count,
         const RankBuffers& buffers)
      : proved_(proved), rank_(rank), args_(args), buffers_(buffers), segments_(segment_count) {
    for (const Schedule& schedule : proved.schedules)
      layouts_.emplace_back(schedule, args, segment_count);
    fold_ = fold_of(args.type, args.op, layouts_[0].rank().n, proved.lowered.whole);
    bound_.reach.assign(layouts_.size() * kSharedSpaces, 0);
    bound_.scratch_bytes = aligned(own().scratch_bytes());
  }

  BoundWords run() {
    for (segment_ = 0; segment_ < segments_; ++segment_) {
      bound_.first.push_back(static_cast<uint32_t>(bound_.words.size()));
      place_packets();
      rows_.clear();
      add_prologue();
      add_program();
      add_epilogue();
      bound_.words.push_back({});
    }
    for (const RankLayout& layout : layouts_) size_of_user(layout);
    // The hello promises its scratch, whoever touches it.
    bound_.reach[reach_of(rank_, Space::scratch)] = bound_.scratch_bytes;
    return std::move(bound_);
  }

 private:
  const RankLayout& own() const { return layouts_[static_cast<size_t>(rank_)]; }
  const Program& program() const { return proved_.lowered.programs[static_cast<size_t>(rank_)]; }
  size_t reach_of(int rank, Space space) const {
    return static_cast<size_t>(rank) * kSharedSpaces + static_cast<size_t>(space);
  }

  // By message: its place among its receiver's packets of this segment.
  void place_packets() {
    slots_.assign(proved_.lowered.messages.size(), 0);
    std::vector<uint64_t> used(layouts_.size(), 0);
    for (size_t number = 0; number < slots_.size(); ++number) {
      const LoweredMessage& message = proved_.lowered.messages[number];
      if (message.way != Way::packet) continue;
      uint64_t& end = used[static_cast<size_t>(message.to)];
      slots_[number] = end;
      end += packet_bytes_of(
          layouts_[static_cast<size_t>(message.to)].at(segment_, message.dst, true).bytes);
      bound_.packet_bytes = std::max(bound_.packet_bytes, end);
    }
  }

  // One pass of one source, outside the program; nothing where there are no bytes.
  void add_copy(Space to, Space from, const RankLayout::At& at, uint64_t from_offset,
                uint8_t flags) {
    if (at.bytes == 0) return;
    Word word{WordVerb::pass, 1, 1, flags, static_cast<uint32_t>(bound_.operands.size()), at.bytes};
    const auto rank = static_cast<uint16_t>(rank_);
    bound_.operands.push_back({rank, to, 0, 0, at.offset});
    bound_.operands.push_back({rank, from, 0, 0, from_offset});
    bound_.words.push_back(word);
    note_reach(rank_, to, at.offset + at.bytes);
    note_reach(rank_, from, from_offset + at.bytes);
  }
  void note_reach(int rank, Space space, uint64_t end) {
    if (static_cast<int>(space) >= kSharedSpaces) return;
    uint64_t& reach = bound_.reach[reach_of(rank, space)];
    reach = std::max(reach, end);
  }

  void add_prologue() {
    if (!buffers_.staged) return;
    for (int chunk = 0; chunk < own().users(); ++chunk) {
      if (!has_memory(args_.collective, own().rank(), chunk) ||
          !begins_with(args_.collective, own().rank(), chunk))
        continue;
      const RankLayout::At at = own().at(segment_, {chunk, 1}, false);
      add_copy(at.space, Space::user_input, at,
               own().in_user(segment_, chunk, false, buffers_.user_block), kPrologue);
    }
  }

  void add_program() {
    early_ = true;
    bool own_block = traits_of(args_.collective).chunks == Chunks::outputs &&
                     has_result(args_.collective, own().rank()) && !buffers_.in_place &&
                     !own_block_is_written();
    for (size_t i = 0; i < program().size(); ++i) {
      const Instruction& one = program()[i];
      if (one.verb == Verb::pass)
        add_pass(one);
      else
        i = add_signals(i) - 1;
      // The first thing that may write what is the user's.
      if (own_block && !early_) add_own_block(), own_block = false;
    }
    if (own_block) add_own_block();
  }
  bool own_block_is_written() const {
    for (const Program& program : proved_.lowered.programs)
      for (const Instruction& one : program)
        for (const Ref& ref : one.dst)
          if (ref.slot < 0 && ref.rank == rank_ && ref.span.first <= rank_ &&
              rank_ < ref.span.first + ref.span.count && ref.span.first < own().users())
            return true;
    return false;
  }
  void add_own_block() {
    const RankLayout::At to = own().at(segment_, {rank_, 1}, true);
    add_copy(to.space, Space::input, to, own().at(segment_, {rank_, 1}, false).offset, 0);
  }

  void add_epilogue() {
    if (!buffers_.staged || !has_result(args_.collective, own().rank())) return;
    for (int chunk = 0; chunk < own().users(); ++chunk) {
      if (!has_memory(args_.collective, own().rank(), chunk) ||
          !may_write(args_.collective, own().rank(), chunk))
        continue;
      const RankLayout::At at = own().at(segment_, {chunk, 1}, true);
      if (at.bytes == 0) continue;
      RankLayout::At user = at;
      user.offset = own().in_user(segment_, chunk, true, buffers_.user_block);
      add_copy(Space::user_output, at.space, user, at.offset, 0);
    }
  }

  Operand operand_of(const Ref& ref, bool written, Word& word) {
    const RankLayout& layout = layouts_[static_cast<size_t>(ref.rank)];
    const RankLayout::At at = layout.at(segment_, ref.span, written);
    word.bytes = at.bytes;
    Operand operand;
    operand.rank = static_cast<uint16_t>(ref.rank);
    if (ref.slot >= 0) {
      word.flags |= kPacked;
      operand.space = Space::slot;
      operand.offset = slots_[static_cast<size_t>(ref.slot)];
    } else if (ref.row >= 0 && is_small_float(args_.type)) {
      word.flags |= kWide;
      operand.space = Space::wide;
      operand.offset = row_at(ref.row, at.bytes);
    } else {
      operand.space = at.space;
      operand.offset = at.offset;
      note_reach(ref.rank, at.space, at.offset + at.bytes);
    }
    return operand;
  }
  // The fp32 sum of a row of this segment.
  uint64_t row_at(int row, uint64_t bytes) {
    for (const auto& [known, offset] : rows_)
      if (known == row) return offset;
    rows_.emplace_back(row, bound_.scratch_bytes);
    bound_.scratch_bytes += aligned(bytes / size_of(args_.type) * sizeof(float));
    return rows_.back().second;
  }

  void add_pass(const Instruction& pass) {
    Word word;
    word.verb = WordVerb::pass;
    word.dsts = static_cast<uint8_t>(pass.dst.size());
    word.srcs = static_cast<uint8_t>(pass.src.size());
    word.operand = static_cast<uint32_t>(bound_.operands.size());
    bool early = early_;
    for (const Ref& ref : pass.dst) {
      bound_.operands.push_back(operand_of(ref, true, word));
      early = early && ref.slot >= 0;
    }
    for (size_t k = 0; k < pass.src.size(); ++k) {
      const Ref& ref = pass.src[k];
      Operand operand = operand_of(ref, false, word);
      if (k < pass.own.size() && pass.own[k] >= 0) {
        operand.flags |= kOwn;
        operand.number = static_cast<uint32_t>(pass.own[k]);
      }
      bound_.operands.push_back(operand);
      early = early && ref.slot < 0 && ref.rank == rank_;
    }
    early_ = early;
    if (word.bytes == 0) return bound_.operands.resize(word.operand);
    if (early) word.flags |= kEarly;
    if (fold_.finishes && pass.completes) word.flags |= kFinish;
    bound_.words.push_back(word);
  }

  // Neighbours of one verb become one word, whose threads are in no order. Of posts to one peer,
  // with nothing left between them, the last one tells it all: points only grow. Returns the
  // instruction after them.
  size_t add_signals(size_t i) {
    const Verb verb = program()[i].verb;
    const bool posts = verb == Verb::post;
    const bool goes_on = posts && bound_.words.size() > bound_.first.back() &&
                         bound_.words.back().verb == WordVerb::post;
    if (!goes_on) {
      Word word;
      word.verb = posts ? WordVerb::post : WordVerb::wait;
      word.operand = static_cast<uint32_t>(bound_.operands.size());
      bound_.words.push_back(word);
    }
    for (; i < program().size() && program()[i].verb == verb; ++i) {
      const Instruction& one = program()[i];
      const auto number = static_cast<uint32_t>(one.number);
      const auto first = bound_.operands.begin() + bound_.words.back().operand;
      const auto same = std::find_if(first, bound_.operands.end(), [&](const Operand& told) {
        return told.rank == static_cast<uint16_t>(one.peer);
      });
      if (same != bound_.operands.end()) {
        same->number = std::max(same->number, number);
        continue;
      }
      bound_.operands.push_back({static_cast<uint16_t>(one.peer), Space::input, 0, number, 0});
      ++bound_.words.back().srcs;
    }
    early_ = false;
    return i;
  }

  void size_of_user(const RankLayout& layout) {
    if (layout.rank().rank != rank_) return;
    for (int segment = 0; segment < segments_; ++segment)
      for (int chunk = 0; chunk < layout.users(); ++chunk) {
        if (!has_memory(args_.collective, layout.rank(), chunk)) continue;
        for (const bool written : {false, true}) {
          const RankLayout::At at = layout.at(segment, {chunk, 1}, written);
          uint64_t& bytes = at.space == Space::input ? bound_.input_bytes : bound_.output_bytes;
          bytes = std::max(bytes, at.offset + at.bytes);
        }
      }
  }

  const ProvedProgram& proved_;
  const int rank_;
  const CollectiveArgs& args_;
  const RankBuffers buffers_;
  const int segments_;
  std::deque<RankLayout> layouts_;  // by rank; they do not move
  BoundFold fold_;
  BoundWords bound_;
  int segment_ = 0;
  bool early_ = true;                           // so far, of this segment
  std::vector<uint64_t> slots_;                 // by message
  std::vector<std::pair<int, uint64_t>> rows_;  // of this segment: where their sums are
};

}  // namespace

BoundWords bind_words(const ProvedProgram& proved, int rank, const CollectiveArgs& args,
                      int segments, const RankBuffers& buffers) {
  if (has_blocks_of_pairs(args))
    throw Error(ErrorCode::invalid_argument,
                "on a device every rank has to know the sizes of all blocks: pass blocks of one "
                "size, or move the tensors to the host");
  return Binder(proved, rank, args, segments, buffers).run();
}

}  // namespace ringwood::device
