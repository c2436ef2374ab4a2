// Pure combinators on schedules.
#pragma once

#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

// Pipelining: every chunk is split in L, and each step is repeated segment by segment (step 0
// segment 0, step 0 segment 1, ..., step 1 segment 0, ...). Piece l of user chunk c becomes chunk
// l * chunks + c, and piece l of scratch chunk s becomes user_chunks * L + l * scratch + s, so a
// multi-chunk span stays whole inside its segment. segments(s, 1) == s. The sizes of scratch refer
// to the new numbers. The plan decides where the chunks of a segment are in memory.
Schedule segments(const Schedule& schedule, int count);

// First a, then b, on the same user chunks (equal rank, n, chunks); b's scratch follows a's.
Schedule then(const Schedule& a, const Schedule& b);

// `s` is a schedule for ranks.size() ranks; the result is the same with rank i renamed ranks[i], in
// a group of n.
Schedule on(const std::vector<int>& ranks, int n, const Schedule& s);

// Coarser: every chunk of `s` becomes a span of `count` chunks, c -> [c * count : (c+1) * count).
// The steps, and so the messages, do not change; other schedules may then work on the finer chunks.
Schedule widen(const Schedule& s, int count);

// Narrower: the chunks of `s` become those from `first` on of a buffer of `chunks`.
Schedule within(int first, int chunks, const Schedule& s);

// Appends `part`, a schedule of ranks.size() ranks with chunks.size() chunks: its rank i is
// ranks[i], and its chunk c is chunks[c] of `s`, the user's or scratch. Its scratch is added to
// that of `s`; its spans are taken apart, and stay one message.
void append(Schedule& s, const Schedule& part, const std::vector<int>& ranks,
            std::vector<int> chunks);

// Published once: where one span of the user's goes to several peers, it is copied to scratch, and
// all of them are sent from there. Excluded are spans of several blocks, which travel one by one.
// Pays where peers read scratch in place.
Schedule publish(const Schedule& s, Collective collective);

// The same, all in scratch, which there is for each chunk of the user's that a step touches: one
// that is read before it is written is copied there first, and what is written is copied back at
// the end. Only these copies touch the user's chunks.
Schedule in_scratch(const Schedule& s);
// Whether what a step reads and writes, if anything, is all scratch.
bool touches_only_scratch(const Schedule& s, const Step& step);
// Whether `s` is like that already: it begins with a copy to scratch, and only copies touch the
// user's chunks.
bool moves_in_scratch(const Schedule& s);

}  // namespace ringwood
