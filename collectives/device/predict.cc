#include "collectives/device/predict.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collectives/device/bind_words.h"
#include "collectives/device/block_events.h"

namespace ringwood::device {
namespace {

// Three for each rank.
int out_of(int rank) { return 3 * rank; }
int into(int rank) { return 3 * rank + 1; }
int memory_of(int rank) { return 3 * rank + 2; }

// What a segment's words do, but for where its data lie: those of which it is the same at all ranks
// are alike.
using Behaviour = std::vector<uint64_t>;

class BoundIsland final {
 public:
  BoundIsland(const ProvedProgram& proved, const CollectiveArgs& args, int segments,
              const IslandModel& model)
      : model_(model),
        ranks_(static_cast<int>(proved.schedules.size())),
        element_(size_of(args.type)) {
    for (int rank = 0; rank < ranks_; ++rank)
      bound_.push_back(bind_words(proved, rank, args, segments, {}));
    std::map<Behaviour, int> known;
    for (int segment = 0; segment < segments; ++segment) {
      const auto next = static_cast<int>(first_.size());
      const auto [at, is_new] = known.emplace(behaviour_of(segment), next);
      if (is_new) first_.push_back(segment), blocks_.push_back(0);
      ++blocks_[static_cast<size_t>(at->second)];
    }
  }

  DevicePrediction run() {
    std::vector<BlockProgram> programs;
    for (size_t group = 0; group < first_.size(); ++group)
      for (int rank = 0; rank < ranks_; ++rank)
        programs.push_back(program_of(rank, static_cast<int>(group)));
    std::vector<double> capacity;
    for (int rank = 0; rank < ranks_; ++rank)
      capacity.insert(capacity.end(), {model_.link, model_.link, model_.memory});
    const auto ends = run_blocks(programs, capacity, static_cast<int>(packets_.size()),
                                 {model_.flag, model_.fence});
    DevicePrediction predicted = traffic_of(programs);
    for (size_t p = 0; p < programs.size(); ++p) {
      double& end = predicted.ends[static_cast<size_t>(programs[p].rank)];
      end = std::max(end, model_.launch + ends[p]);
    }
    predicted.seconds = *std::ranges::max_element(predicted.ends);
    for (const BoundWords& bound : bound_)
      predicted.packet_bytes =
          std::max(predicted.packet_bytes, static_cast<double>(bound.packet_bytes));
    return predicted;
  }

 private:
  template <class Visit>
  void for_words(int rank, int segment, Visit visit) const {
    const BoundWords& bound = bound_[static_cast<size_t>(rank)];
    for (size_t at = bound.first[static_cast<size_t>(segment)];
         bound.words[at].verb != WordVerb::end; ++at)
      visit(bound.words[at], bound.operands.data() + bound.words[at].operand);
  }

  Behaviour behaviour_of(int segment) const {
    Behaviour all;
    for (int rank = 0; rank < ranks_; ++rank) {
      for_words(rank, segment, [&](const Word& word, const Operand* operand) {
        all.insert(all.end(), {uint64_t(word.verb), uint64_t(word.dsts), uint64_t(word.srcs),
                               uint64_t(word.flags), word.bytes});
        for (int k = 0; k < word.dsts + word.srcs; ++k) {
          const Operand& one = operand[k];
          all.insert(all.end(), {one.rank, uint64_t(one.space), one.number,
                                 one.space == Space::slot ? one.offset : 0});
        }
      });
      all.push_back(UINT64_MAX);
    }
    return all;
  }

  BlockProgram program_of(int rank, int group) {
    BlockProgram program{rank, group, blocks_[static_cast<size_t>(group)], {}};
    bool told = false, heard = false;
    const auto begin = [&](uint8_t flags) {
      if (!told && !(flags & kPrologue))
        program.words.push_back({BlockWord::Kind::greet}), told = true;
      if (!heard && !(flags & (kPrologue | kEarly)))
        program.words.push_back({BlockWord::Kind::hear}), heard = true;
    };
    for_words(
        rank, first_[static_cast<size_t>(group)], [&](const Word& word, const Operand* operand) {
          begin(word.flags);
          program.words.push_back(word.verb == WordVerb::pass ? pass_of(word, operand, rank, group)
                                                              : signal_of(word, operand));
        });
    begin(0);
    return program;
  }

  static BlockWord signal_of(const Word& word, const Operand* operand) {
    BlockWord signal;
    signal.kind = word.verb == WordVerb::post ? BlockWord::Kind::post : BlockWord::Kind::wait;
    for (int k = 0; k < word.srcs; ++k)
      signal.points.push_back({operand[k].rank, operand[k].number});
    return signal;
  }

  BlockWord pass_of(const Word& word, const Operand* operand, int rank, int group) {
    BlockWord pass;
    std::map<int, double> uses;
    double remote = 0, local = 0;
    for (int k = 0; k < word.dsts + word.srcs; ++k) {
      const Operand& one = operand[k];
      const bool written = k < word.dsts;
      const double bytes = bytes_of(word, one);
      (one.rank == rank ? local : remote) += bytes;
      uses[memory_of(one.rank)] += bytes;
      if (one.rank != rank) {
        uses[out_of(written ? rank : one.rank)] += bytes;
        uses[into(written ? one.rank : rank)] += bytes;
      }
      if (one.space == Space::slot)
        (written ? pass.writes : pass.reads).push_back(packet_of(group, one));
    }
    const double rate = word.flags & kPacked ? model_.packet_block : model_.block;
    pass.alone = std::max(remote, local) / rate;
    for (const auto& [resource, bytes] : uses) pass.uses.push_back({resource, bytes});
    return pass;
  }
  double bytes_of(const Word& word, const Operand& one) const {
    const auto bytes = static_cast<double>(word.bytes);
    if (one.space == Space::slot) return bytes / model_.packet_efficiency;
    if (one.space == Space::wide) return bytes / static_cast<double>(element_) * sizeof(float);
    return bytes;
  }
  int packet_of(int group, const Operand& slot) {
    const auto next = static_cast<int>(packets_.size());
    return packets_.emplace(std::tuple(group, int{slot.rank}, slot.offset), next).first->second;
  }

  DevicePrediction traffic_of(const std::vector<BlockProgram>& programs) const {
    std::vector<double> bytes(static_cast<size_t>(3 * ranks_), 0.0);
    for (const BlockProgram& program : programs)
      for (const BlockWord& word : program.words)
        for (const ResourceUse& use : word.uses)
          bytes[static_cast<size_t>(use.resource)] += use.bytes * program.blocks;
    DevicePrediction predicted;
    for (int rank = 0; rank < ranks_; ++rank) {
      predicted.out_bytes.push_back(bytes[static_cast<size_t>(out_of(rank))]);
      predicted.in_bytes.push_back(bytes[static_cast<size_t>(into(rank))]);
    }
    predicted.ends.assign(static_cast<size_t>(ranks_), 0.0);
    return predicted;
  }

  const IslandModel& model_;
  const int ranks_;
  const size_t element_;
  std::vector<BoundWords> bound_;    // by rank
  std::vector<int> first_, blocks_;  // by group of like segments: the first one, how many
  std::map<std::tuple<int, int, uint64_t>, int> packets_;  // by group, rank and offset: the number
};

}  // namespace

DevicePrediction predict(const ProvedProgram& proved, const CollectiveArgs& args, int segments,
                         const IslandModel& model) {
  return BoundIsland(proved, args, segments, model).run();
}

}  // namespace ringwood::device
