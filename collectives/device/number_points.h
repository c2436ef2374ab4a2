// Signals of programs: as early as they are true, as few as needed, and numbered.
#pragma once

#include "collectives/device/program.h"

namespace ringwood::device {

// Moves each post of `ready` and `open` up to where its promise becomes true; at the very beginning
// the hello has promised it. Posts of `done`, and those that follow a push, stay. Pure.
void hoist_posts(Lowered& lowered);

// Moves each pass that only sends packets up to where what it sends is there: what comes in between
// is then under way while the block waits for others, and at the very beginning it goes before the
// hellos are heard. Pure.
void hoist_packets(Lowered& lowered);

// Gives posts and waits the numbers of one counter for each pair of ranks: posts with nothing but
// posts between them share a number, and those at the very beginning are the hello, 0. Waits that
// an earlier one implies, and posts that nobody waits for, are dropped. Pure.
void number_points(Lowered& lowered);

}  // namespace ringwood::device
