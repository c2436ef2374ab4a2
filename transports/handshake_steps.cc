#include "transports/handshake_steps.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <string_view>

namespace ringwood {
namespace {

constexpr uint32_t kMagic = 0x574e4952;  // "RINW"
constexpr uint16_t kVersion = 1;
constexpr size_t kMacBytes = 32, kNonceBytes = 32, kSessionBytes = 16;
constexpr size_t kHelloBytes = 4 + 2 + kSessionBytes + 2 + 2 + 4 + 4 + kNonceBytes;
constexpr size_t kReplyBytes = kNonceBytes + kMacBytes, kProofBytes = kMacBytes, kVerdictBytes = 1;
static_assert(kHelloBytes == 66);

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

std::array<uint8_t, kMacBytes> mac(const Identity& me, std::string_view label, const Bytes& hello,
                                   std::span<const uint8_t> nonce) {
  Bytes text(label.begin(), label.end());
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

DialSteps::DialSteps(const Identity& me, const Greeting& greeting) : me_(me), wanted_(kReplyBytes) {
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

Bytes DialSteps::take_reply(std::span<const uint8_t> message) {
  auto nonce = message.first(kNonceBytes), proof = message.subspan(kNonceBytes);
  if (std::all_of(proof.begin(), proof.end(), [](uint8_t b) { return b == 0; })) {
    size_t at = 0;
    return refuse(
        ErrorCode::unsupported,
        fmt::format("the other side speaks version {} of the handshake, this one version {}; "
                    "install the same release on all hosts",
                    get<uint16_t>(nonce, at), kVersion));
  }
  if (!same(proof, mac(me_, "accept", hello_, nonce))) {
    return refuse(ErrorCode::invalid_argument,
                  "the other side is not who was expected: " + describe_reason(kWrongKey));
  }
  wanted_ = kVerdictBytes;
  auto answer = mac(me_, "dial", hello_, nonce);
  return Bytes(answer.begin(), answer.end());
}

Bytes DialSteps::take(std::span<const uint8_t> message) {
  if (wanted_ == kReplyBytes) return take_reply(message);
  wanted_ = 0;
  welcome_ = message[0] == kWelcome;
  if (welcome_) return {};
  return refuse(ErrorCode::invalid_argument,
                "the other side refused the connection: " + describe_reason(message[0]));
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
    Bytes refusal;
    put(refusal, kVersion);
    refusal.resize(kReplyBytes);
    return refusal;
  }
  auto session = message.subspan(at, kSessionBytes);
  at += kSessionBytes;
  auto purpose = get<uint16_t>(message, at);
  greeting_.purpose = static_cast<Purpose>(purpose);
  greeting_.channel = get<uint16_t>(message, at);
  auto from = get<uint32_t>(message, at), to = get<uint32_t>(message, at);
  greeting_.from = static_cast<int>(from);
  greeting_.to = static_cast<int>(to);
  auto size = static_cast<uint32_t>(me_.size), rank = static_cast<uint32_t>(me_.rank);
  if (purpose < uint16_t(Purpose::control) || purpose > uint16_t(Purpose::verbs))
    objection_ = kWrongPurpose;
  if (from >= size || from == rank) objection_ = kWrongSender;
  if (to != rank) objection_ = kWrongReceiver;
  if (!same(session, me_.session)) objection_ = kWrongSession;
  nonce_ = random_key();
  Bytes reply(nonce_.begin(), nonce_.end());
  auto proof = mac(me_, "accept", hello_, nonce_);
  reply.insert(reply.end(), proof.begin(), proof.end());
  wanted_ = kProofBytes;
  return reply;
}

Bytes AcceptSteps::take_proof(std::span<const uint8_t> message) {
  wanted_ = 0;
  uint8_t reason =
      same(message, mac(me_, "dial", hello_, nonce_)) ? objection_ : uint8_t(kWrongKey);
  welcome_ = reason == kWelcome;
  if (!welcome_) error_ = Error(ErrorCode::invalid_argument, describe_reason(reason));
  return {reason};
}

Bytes AcceptSteps::take(std::span<const uint8_t> message) {
  return wanted_ == kHelloBytes ? take_hello(message) : take_proof(message);
}

Result<Greeting> AcceptSteps::result() const {
  if (welcome_) return greeting_;
  return error_;
}

}  // namespace ringwood
