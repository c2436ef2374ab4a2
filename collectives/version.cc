#include "collectives/version.h"

const char* ringwood_version() { return RINGWOOD_VERSION; }
