// The handshake without its input and output, so that one implementation serves blocking and Asio
// callers.
//
// Each side says how many bytes it wants next, is given exactly so many, and returns what to send.
// When it wants nothing more, what it returned last is still to be sent, and result() is final. Not
// thread safe; nothing blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transports/bootstrap/handshake.h"

namespace ringwood {

using Bytes = std::vector<uint8_t>;

class DialSteps {
 public:
  DialSteps(const Identity& me, const Greeting& greeting);
  const Bytes& hello() const { return hello_; }
  size_t wanted() const { return wanted_; }
  // Precondition: message.size() == wanted() > 0.
  Bytes take(std::span<const uint8_t> message);
  // Success only after a Result that welcomes.
  Status result() const;
  // The acceptor's. Precondition: result().ok().
  const std::array<uint8_t, 16>& session() const { return session_; }

 private:
  Bytes take_challenge(std::span<const uint8_t> message);
  Bytes take_result(std::span<const uint8_t> message);
  Bytes refuse(ErrorCode code, std::string why);

  const Identity& me_;
  Bytes hello_, nonce_;
  std::array<uint8_t, 16> session_{};
  size_t wanted_;
  Error error_;
  bool welcome_ = false;
};

// The Challenge to a process of user `theirs` at a Unix socket of user `mine`: its refusal.
Bytes refuse_user(uint32_t mine, uint32_t theirs);

class AcceptSteps {
 public:
  explicit AcceptSteps(const Identity& me);
  size_t wanted() const { return wanted_; }
  // Precondition: message.size() == wanted() > 0.
  Bytes take(std::span<const uint8_t> message);
  Result<Greeting> result() const;

 private:
  Bytes take_hello(std::span<const uint8_t> message);
  Bytes take_job(std::span<const uint8_t> message);
  Bytes take_proof(std::span<const uint8_t> message);

  const Identity& me_;
  Bytes hello_;
  std::array<uint8_t, 32> nonce_{};
  Greeting greeting_;
  size_t wanted_;
  uint8_t objection_ = 0;  // why a peer that knows the key is refused
  std::string difference_;
  Error error_;
  bool welcome_ = false;
};

}  // namespace ringwood
