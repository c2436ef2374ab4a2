// Messages of several blocks: which of them travel as one, by way of the scratch.
#include <algorithm>

#include "collectives/plan/passes.h"

namespace ringwood {
namespace {

class Bundler {
 public:
  Bundler(const Schedule& from, const CollectiveArgs& args, const ProtocolLimits& limits,
          const Wire& wire)
      : from_(from),
        args_(args),
        limit_(limits.bundled / size_of(args.type)),
        in_memory_(limits.bundled_in_memory),
        most_in_memory_(limits.bundled_bytes_in_memory / size_of(args.type)),
        wire_(wire),
        result_{from.rank, from.n, from.chunks, from.scratch, {}} {}

  Bundled run() {
    result_.steps.reserve(from_.steps.size());
    for (size_t i = 0, end; i < from_.steps.size(); i = end) {
      end = end_of_message(from_.steps, i);
      const std::span<const Step> message = std::span(from_.steps).subspan(i, end - i);
      if (travels_as_one(message))
        add_bundle(message);
      else
        for (const Step& step : message) add_alone(step);
    }
    return {std::move(result_), bundles_};
  }

 private:
  static Span span_of(const Step& step) {
    return step.kind == StepKind::send ? step.src : step.dst;
  }

  size_t elements(int chunk) const {
    if (chunk >= from_.chunks) chunk = from_.scratch[chunk - from_.chunks];
    if (cut_from_one_buffer(args_.collective))
      return piece(args_.count, from_.chunks, chunk, std::max<size_t>(1, 64 / size_of(args_.type)))
          .count;
    if (args_.blocks.empty()) return args_.count;
    const GroupRank at{from_.rank, from_.n, args_.root};
    return args_.blocks[block_of_chunk(args_.collective, at, chunk)];
  }

  bool shares_memory(int peer) const {
    return !wire_.apart && (wire_.host.empty() || wire_.host[peer] == wire_.host[from_.rank]);
  }

  // Both ends find the same: they have as many spans and chunks of equal sizes, in scratch or not.
  bool travels_as_one(std::span<const Step> message) const {
    size_t parts = 0, sum = 0;
    for (const Step& step : message) {
      if (step.peer < 0) return false;
      const Span span = span_of(step);
      const bool whole = cut_from_one_buffer(args_.collective) || span.first >= from_.chunks;
      parts += whole ? 1 : span.count;
    }
    const bool in_memory = shares_memory(message[0].peer);
    if (parts < 2 || (in_memory && parts < in_memory_)) return false;
    for (const Step& step : message) {
      const Span span = span_of(step);
      for (int c = span.first; c < span.first + span.count; ++c) sum += elements(c);
    }
    return sum <= parts * limit_ && (!in_memory || sum <= most_in_memory_);
  }

  void add_alone(Step step) {
    step.joined = false;
    result_.steps.push_back(step);
  }

  void add_bundle(std::span<const Step> message) {
    ++bundles_;
    Span room{from_.chunks + static_cast<int>(result_.scratch.size()), 0};
    for (const Step& step : message) {
      const Span span = span_of(step);
      for (int c = span.first; c < span.first + span.count; ++c)
        result_.add_scratch(c < from_.chunks ? c : from_.scratch[c - from_.chunks]);
      room.count += span.count;
    }
    const int peer = message[0].peer;
    const bool sends = message[0].kind == StepKind::send;
    if (!sends) result_.recv(peer, room);
    int at = room.first;
    for (const Step& step : message) {
      const Span span = span_of(step), part{at, span.count};
      at += span.count;
      if (sends)
        result_.copy(part, span);
      else if (step.kind == StepKind::recv)
        result_.copy(span, part);
      else
        result_.reduce(span, part);
    }
    if (sends) result_.send(peer, room);
  }

  const Schedule& from_;
  const CollectiveArgs& args_;
  const size_t limit_;           // elements of a block
  const size_t in_memory_;       // blocks, at least
  const size_t most_in_memory_;  // elements of a message
  const Wire& wire_;
  Schedule result_;
  int bundles_ = 0;
};

}  // namespace

Bundled bundle(const Schedule& schedule, const CollectiveArgs& args, const ProtocolLimits& limits,
               const Wire& wire) {
  return Bundler(schedule, args, limits, wire).run();
}

}  // namespace ringwood
