// The records of a running rank, for `ringwood trace --pid`: the text of a file of
// RINGWOOD_TRACE_DIR in pieces.
//
//   watcher --TraceQuery--> a rank's StatusEndpoint --> rank 0 --> the rank that is meant: a piece
//           <--TracePiece--                         <--        <--
//
// First the ranks are told to begin, all of them in one turn, so that their texts are of about one
// moment. Each makes its text in a thread of its own, under the number that the watcher has chosen,
// and keeps it for a while (trace_texts.h). Then the watcher asks for piece after piece, one at a
// time, of which each is answered at once: also by `making`, upon which it asks again. So neither a
// control thread nor a buffer has more to do with a text than one piece of it.
//
// A text is opaque here (collectives/recorder/trace_dump.h), and bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "transports/base/bytes.h"
#include "transports/base/result.h"

namespace ringwood {

inline constexpr uint32_t kMaxTraceText = 16 << 20, kMaxTracePiece = 32 << 10;
inline constexpr size_t kMaxTraceReply = kMaxTracePiece + 64;
inline constexpr size_t kMaxTraceWords = 400;  // of a refusal

// A ReportQuery begins with 0 or 1, so that no message is taken for the other one.
enum class TraceAsk : uint8_t {
  begin = 2,  // the rank makes a text; no effect where it has one of this number
  begin_all,  // all ranks do, as far as they can be reached
  piece
};

struct TraceQuery {
  TraceAsk ask = TraceAsk::piece;
  uint64_t text = 0;  // its number
  int rank = 0;       // that is meant; begin_all: no matter
  uint32_t offset = 0;
  bool operator==(const TraceQuery&) const = default;
};

enum class TraceState : uint8_t {
  here,     // `bytes` are those from `offset` on
  making,   // it has begun
  unknown,  // no text of this number is there, or no more
  failed,   // there will be none: `bytes` says why
  silent,   // the rank has not answered
  absent    // there is no connection to it, or no such rank
};

struct TracePiece {
  TraceState state = TraceState::unknown;
  // As asked for.
  uint64_t text = 0;
  int rank = 0;
  uint32_t offset = 0;
  uint32_t total = 0;  // bytes of the whole text; 0: not known yet
  std::string bytes;
};
using TraceReply = std::function<void(const TracePiece&)>;
// With a text, or why there is none. Called once, by any thread.
using TraceDone = std::function<void(Result<std::string>)>;

inline TracePiece piece_of(const TraceQuery& query, TraceState state) {
  return {state, query.text, query.rank, query.offset, 0, {}};
}
inline bool answers(const TracePiece& piece, const TraceQuery& query) {
  return piece.text == query.text && piece.rank == query.rank && piece.offset == query.offset;
}

void fields(auto& io, TraceQuery& query) {
  io.number(query.ask, TraceAsk::begin, TraceAsk::piece);
  io.number(query.text);
  io.number(query.rank, 0, std::numeric_limits<int>::max());
  io.number(query.offset, 0, kMaxTraceText);
}

void fields(auto& io, TracePiece& piece) {
  io.number(piece.state, TraceState::here, TraceState::absent);
  io.number(piece.text);
  io.number(piece.rank, 0, std::numeric_limits<int>::max());
  io.number(piece.offset, 0, kMaxTraceText);
  io.number(piece.total, 0, kMaxTraceText);
  io.blob(piece.bytes, kMaxTracePiece);
}

}  // namespace ringwood
