// How those wait who can only look again and again whether a store has what they need.
#pragma once

#include <optional>
#include <string>

#include "transports/base/clock.h"

namespace ringwood {

class Store;  // store.h

// The pause before the next look, after a wait of `waited`: an eighth of that, from 1 ms to 250 ms.
// So a wait becomes longer by an eighth at most, and many ranks that wait for a late one ask the
// store four times a second each.
Duration poll_pause(Duration waited);
// Sleeps for `pause`, but not beyond the deadline, which may end early (clock.h).
void sleep_within(Duration pause, Deadline deadline);
// As store.get(), but none where that throws a timeout.
std::optional<std::string> get_if_there(Store& store, const std::string& key, Deadline deadline);

}  // namespace ringwood
