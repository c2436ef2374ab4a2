#include "transports/bootstrap/handshake_steps.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <string_view>

namespace ringwood {
namespace {

constexpr uint32_t kMagic = 0x574e4952;  // "RINW"
constexpr uint16_t kVersion = 3;
constexpr size_t kMacBytes = 32, kNonceBytes = 32, kSessionBytes = 16;
constexpr size_t kHelloBytes = 4 + 2 + kSessionBytes + 2 + 2 + 4 + 4 + kNonceBytes;
// Of the size that version 1 expects, which finds our version at the same place.
constexpr size_t kNonceAt = 32, kChallengeBytes = kNonceAt + kNonceBytes;
constexpr size_t kProofBytes = kMacBytes, kResultBytes = 1 + kMacBytes;
static_assert(kHelloBytes == 66 && kChallengeBytes == 64 && kResultBytes == 33);

enum Reason : uint8_t {
  kWelcome = 0,
  kWrongSession,
  kWrongReceiver,
  kWrongSender,
  kWrongPurpose,
  kWrongKey
};

std::string describe_reason(uint8_t reason) {
  switch (reason) {
    case kWrongSession: return "it belongs to another communicator or an earlier start of the job";
    case kWrongReceiver: return "the connection was meant for another rank";
    case kWrongSender: return "the dialling rank is not one of the group";
    case kWrongPurpose: return "the purpose of the connection is not known";
    case kWrongKey: return "the keys differ; is RINGWOOD_KEY_FILE the same on all hosts?";
    default: return fmt::format("for reason {}", reason);
  }
}

template <class T>
void put(Bytes& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<uint8_t>(uint64_t(value) >> (8 * i)));
}

template <class T>
T get(std::span<const uint8_t> in, size_t& at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t(in[at + i]) << (8 * i);
  at += sizeof(T);
  return static_cast<T>(value);
}

bool is_known(Purpose purpose) {
  return purpose == Purpose::control || purpose == Purpose::store ||
         purpose >= Purpose::first_of_transports;
}

std::array<uint8_t, kMacBytes> mac(const Identity& me, std::string_view label, uint8_t reason,
                                   const Bytes& hello, std::span<const uint8_t> nonce) {
  Bytes text(label.begin(), label.end());
  text.push_back(reason);
  text.insert(text.end(), hello.begin(), hello.end());
  text.insert(text.end(), nonce.begin(), nonce.end());
  std::array<uint8_t, kMacBytes> out{};
  unsigned bytes = out.size();
  if (!HMAC(EVP_sha256(), me.key.data(), static_cast<int>(me.key.size()), text.data(), text.size(),
            out.data(), &bytes)) {
    throw Error(ErrorCode::internal, "OpenSSL cannot compute an HMAC-SHA256");
  }
  return out;
}

bool same(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

DialSteps::DialSteps(const Identity& me, const Greeting& greeting)
    : me_(me), wanted_(kChallengeBytes) {
  put(hello_, kMagic);
  put(hello_, kVersion);
  hello_.insert(hello_.end(), me.session.begin(), me.session.end());
  put(hello_, static_cast<uint16_t>(greeting.purpose));
  put(hello_, greeting.channel);
  put(hello_, static_cast<uint32_t>(greeting.from));
  put(hello_, static_cast<uint32_t>(greeting.to));
  auto nonce = random_key();
  hello_.insert(hello_.end(), nonce.begin(), nonce.end());
}

Bytes DialSteps::refuse(ErrorCode code, std::string why) {
  wanted_ = 0;
  error_ = Error(code, std::move(why));
  return {};
}

Bytes DialSteps::take_challenge(std::span<const uint8_t> message) {
  size_t at = 0;
  if (auto version = get<uint16_t>(message, at); version != kVersion) {
    return refuse(
        ErrorCode::unsupported,
        fmt::format("the other side speaks version {} of the handshake, this one version {}; "
                    "install the same release on all hosts",
                    version, kVersion));
  }
  if (std::any_of(message.begin() + at, message.begin() + kNonceAt, [](uint8_t b) { return b; }))
    return refuse(ErrorCode::invalid_argument, "what the other side sent is no Ringwood handshake");
  nonce_.assign(message.begin() + kNonceAt, message.end());
  wanted_ = kResultBytes;
  auto proof = mac(me_, "dial", 0, hello_, nonce_);
  return Bytes(proof.begin(), proof.end());
}

// Who does not know the key can say anything but welcome.
Bytes DialSteps::take_result(std::span<const uint8_t> message) {
  wanted_ = 0;
  const uint8_t reason = message[0];
  const bool proved = same(message.subspan(1), mac(me_, "accept", reason, hello_, nonce_));
  welcome_ = proved && reason == kWelcome;
  if (welcome_) return {};
  if (!proved) {
    return refuse(ErrorCode::invalid_argument,
                  "the other side is not who was expected: " + describe_reason(kWrongKey));
  }
  return refuse(ErrorCode::invalid_argument,
                "the other side refused the connection: " + describe_reason(reason));
}

Bytes DialSteps::take(std::span<const uint8_t> message) {
  return wanted_ == kChallengeBytes ? take_challenge(message) : take_result(message);
}

Status DialSteps::result() const {
  if (welcome_) return {};
  return error_;
}

AcceptSteps::AcceptSteps(const Identity& me) : me_(me), wanted_(kHelloBytes) {}

Bytes AcceptSteps::take_hello(std::span<const uint8_t> message) {
  hello_.assign(message.begin(), message.end());
  wanted_ = 0;
  size_t at = 0;
  if (get<uint32_t>(message, at) != kMagic) {
    error_ = Error(ErrorCode::invalid_argument, "what it sent is no Ringwood handshake");
    return {};
  }
  if (auto version = get<uint16_t>(message, at); version != kVersion) {
    error_ = Error(ErrorCode::unsupported,
                   fmt::format("it speaks version {} of the handshake, this side version {}",
                               version, kVersion));
    return challenge(false);
  }
  auto session = message.subspan(at, kSessionBytes);
  at += kSessionBytes;
  greeting_.purpose = static_cast<Purpose>(get<uint16_t>(message, at));
  greeting_.channel = get<uint16_t>(message, at);
  auto from = get<uint32_t>(message, at), to = get<uint32_t>(message, at);
  greeting_.from = static_cast<int>(from);
  greeting_.to = static_cast<int>(to);
  auto size = static_cast<uint32_t>(me_.size), rank = static_cast<uint32_t>(me_.rank);
  if (!is_known(greeting_.purpose)) objection_ = kWrongPurpose;
  if (from >= size || from == rank) objection_ = kWrongSender;
  if (to != rank) objection_ = kWrongReceiver;
  if (!same(session, me_.session)) objection_ = kWrongSession;
  nonce_ = random_key();
  wanted_ = kProofBytes;
  return challenge(true);
}

// Our version stands where every version of the handshake looks for it.
Bytes AcceptSteps::challenge(bool with_nonce) const {
  Bytes challenge;
  challenge.reserve(kChallengeBytes);
  put(challenge, kVersion);
  challenge.resize(kChallengeBytes);
  if (with_nonce) std::copy(nonce_.begin(), nonce_.end(), challenge.begin() + kNonceAt);
  return challenge;
}

// Nothing that depends on the key leaves before the dialler has proved that it knows it.
Bytes AcceptSteps::take_proof(std::span<const uint8_t> message) {
  wanted_ = 0;
  const bool proved = same(message, mac(me_, "dial", 0, hello_, nonce_));
  const uint8_t reason = proved ? objection_ : uint8_t(kWrongKey);
  welcome_ = reason == kWelcome;
  if (!welcome_) error_ = Error(ErrorCode::invalid_argument, describe_reason(reason));
  Bytes result(kResultBytes);
  result[0] = reason;
  if (proved) {
    auto proof = mac(me_, "accept", reason, hello_, nonce_);
    std::copy(proof.begin(), proof.end(), result.begin() + 1);
  }
  return result;
}

Bytes AcceptSteps::take(std::span<const uint8_t> message) {
  return wanted_ == kHelloBytes ? take_hello(message) : take_proof(message);
}

Result<Greeting> AcceptSteps::result() const {
  if (welcome_) return greeting_;
  return error_;
}

}  // namespace ringwood
