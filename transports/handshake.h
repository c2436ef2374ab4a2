// Who may speak to us: a bounded, versioned, keyed handshake on every connection.
//
//   dialer                                   acceptor
//     Hello{magic, version, session, purpose, channel, from, to, nonce_d}  ->
//                                    <-  Reply{nonce_a, HMAC(key, "accept" | all of Hello |
//                                    nonce_a)}
//     Proof{HMAC(key, "dial" | all of Hello | nonce_a)}  ->
//                                    <-  Verdict{0 welcome | reason}
//
// All messages have a fixed size (66, 64, 32 and 1 bytes, numbers little-endian); nothing a
// stranger sends is a length. HMAC-SHA256 (OpenSSL), constant-time compare. Reasons are told only
// to those who proved the key, except that of another version: a Reply with a zero HMAC, whose
// first bytes are the acceptor's version. `session` is drawn anew for every communicator, so ranks
// of an earlier start are refused. A random session key that travels through the store stops
// scanners and other jobs, not an attacker who can read the store; for that, RINGWOOD_KEY_FILE.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "transports/clock.h"
#include "transports/error.h"

namespace ringwood {

struct Identity {
  std::array<uint8_t, 32> key{};
  std::array<uint8_t, 16> session{};
  int rank = 0, size = 1;
};

enum class Purpose : uint16_t { control = 1, tcp = 2, shm = 3, verbs = 4 };

// What a connection is for. `from` dialled `to`.
struct Greeting {
  Purpose purpose = Purpose::control;
  uint16_t channel = 0;
  int from = 0, to = 0;
};

// Both work on any connected stream descriptor, blocking or not (poll + deadline), and leave it
// open. Codes: network and timeout may go away when tried again; unsupported (version) and
// invalid_argument do not.
Status dial_handshake(int fd, const Identity& me, const Greeting& greeting, Deadline deadline);
// Refuses (and says why in the Error) a wrong magic, version, session, key, `to`, or an
// out-of-range `from`.
Result<Greeting> accept_handshake(int fd, const Identity& me, Deadline deadline);

std::array<uint8_t, 32> random_key();
std::array<uint8_t, 16> random_session();
// Reads a secret of 16 to 4096 bytes and hashes it; throws Error when it is missing or others may
// read it.
std::array<uint8_t, 32> key_from_file(const std::string& path);

}  // namespace ringwood
