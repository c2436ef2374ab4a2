// A user's tuner (tuner_plugin.h) in front of another one.
#pragma once

#include <memory>

#include "collectives/tuner/tuner.h"
#include "transports/base/options.h"

struct ringwood_tuner;

namespace ringwood {

// RINGWOOD_TUNER or Options::tuner_plugin; null: neither. A library stays loaded for the process.
// Throws Error(invalid_argument) with the reason and a remedy.
const ringwood_tuner* load_plugin(const Options& options);

// `inner` chooses where the plugin has no answer, or an unusable one, which is said in the log
// once. Throws Error(invalid_argument) where the plugin refuses the group.
std::shared_ptr<const Tuner> with_plugin(std::shared_ptr<const Tuner> inner,
                                         const ringwood_tuner& plugin, int ranks,
                                         const Options& options);

}  // namespace ringwood
