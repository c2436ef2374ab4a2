// A bounded, versioned, keyed handshake on every connection; it decides which peers may connect.
//
//   dialer                                   acceptor
//     Hello{magic, version, session, purpose, channel, from, to, nonce_d | job}  ->
//                                         <-  Challenge{version, nonce_a}
//     Proof{HMAC(key, "dial" | all of Hello | nonce_a)}  ->
//                                         <-  Result{0 welcome | reason, session, job,
//                                            HMAC(key, "accept" | these | Hello | nonce_a)}
//
// All messages have a fixed size (66 + 200, 64, 32 and 249 bytes, numbers little-endian); nothing
// that a stranger sends is used as a length. HMAC-SHA256 (OpenSSL), constant-time compare. The
// dialler proves the key first: an acceptor computes nothing for strangers that depends on the key,
// and tells a dialler that failed only that it failed. The reply to another version, which follows
// the first 66 bytes, is a Challenge without a nonce, whose first bytes are the acceptor's version.
// A process of another user at a Unix socket gets a Challenge at once that says so, without a
// nonce.
//
// `session` is drawn anew for every communicator and every tcp_store, so ranks of an earlier start
// are refused, and both nonces for every connection, so a recorded handshake is useless. Who dials
// a store for the first time does not know its session yet, sends zeros, and learns it. `job`
// (strangers/job.h) says which job each side belongs to: both name what differs.
//
// Protection: with RINGWOOD_KEY_FILE, an attacker without the key cannot become a rank, cannot read
// the store (the tcp_store's connections use the handshake too), and learns nothing from which to
// guess the key, unless a rank dials him. Without it, a random session key travels through the
// store: that stops scanners and other jobs, not an attacker who can reach the store. In neither
// case is the traffic after the handshake encrypted or signed: an attacker who can read or change
// packets between the hosts can read and change the data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "transports/base/clock.h"
#include "transports/base/hash.h"
#include "transports/base/result.h"
#include "transports/bootstrap/identity.h"

namespace ringwood {

// The version of all protocols between processes: incremented with every change of any of them. It
// comes first in the first messages of two processes (here, and in the store in
// bootstrap_messages.h), so that different releases report the difference.
inline constexpr uint16_t kProtocolVersion = 10;

// The lower half is for this list; a transport's purpose is a hash of its name, so that no list has
// to contain it. An assertion beside the table checks that all rows differ.
enum class Purpose : uint16_t { control = 1, store = 2, first_of_transports = 0x8000 };
constexpr Purpose purpose_of(std::string_view transport) {
  const uint32_t hash = fnv1a(transport);
  constexpr uint32_t kFirst = static_cast<uint16_t>(Purpose::first_of_transports);
  return static_cast<Purpose>(kFirst | ((hash ^ hash >> 16) & (kFirst - 1)));
}

// The purpose of a connection. `from` dialled `to`.
struct Greeting {
  Purpose purpose = Purpose::control;
  uint16_t channel = 0;
  int from = 0, to = 0;
};

// Works on any connected stream descriptor, blocking or not (poll + deadline), and leaves it open.
// After errors network and timeout a retry may succeed; after unsupported (version) and
// invalid_argument it does not. `session`, if not null, becomes the acceptor's once it has
// welcomed. The acceptor never waits: AcceptSteps (handshake_steps.h).
Status dial_handshake(int fd, const Identity& me, const Greeting& greeting, Deadline deadline,
                      std::array<uint8_t, 16>* session = nullptr);

// Reads a secret of 32 to 4096 bytes and hashes it. Throws Error, with the command that makes a
// good one, if it is missing, short, plainly not random, or not this user's alone (private_file.h).
std::array<uint8_t, 32> key_from_file(const std::string& path);

}  // namespace ringwood
