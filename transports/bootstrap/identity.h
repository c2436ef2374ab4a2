// The identity of a rank to its peers, which the handshake (handshake.h) proves.
#pragma once

#include <array>
#include <cstdint>

#include "transports/bootstrap/strangers/job.h"

namespace ringwood {

struct Identity {
  std::array<uint8_t, 32> key{};
  std::array<uint8_t, 16> session{};
  int rank = 0, size = 1;
  JobIdentity job{};
};

std::array<uint8_t, 32> random_key();
std::array<uint8_t, 16> random_session();

}  // namespace ringwood
