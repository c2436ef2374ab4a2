#include "transports/bootstrap/handshake_steps.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <string_view>

#include "transports/base/bytes.h"

namespace ringwood {
namespace {

constexpr uint32_t kMagic = 0x574e4952;  // "RINW"
constexpr size_t kMacBytes = 32, kNonceBytes = 32, kSessionBytes = 16;
// What other versions send begins like this, and is followed by nothing or by other things.
constexpr size_t kHelloBytes = 4 + 2 + kSessionBytes + 2 + 2 + 4 + 4 + kNonceBytes;
// Of the size that version 1 expects, which finds our version at the same offset.
constexpr size_t kNonceAt = 32, kChallengeBytes = kNonceAt + kNonceBytes;
constexpr size_t kProofBytes = kMacBytes;
constexpr size_t kResultBytes = 1 + kSessionBytes + kJobBytes + kMacBytes;
static_assert(kHelloBytes == 66 && kJobBytes == 200 && kChallengeBytes == 64 &&
              kResultBytes == 249);

enum Reason : uint8_t {
  kWelcome = 0,
  kWrongSession,
  kWrongReceiver,
  kWrongSender,
  kWrongPurpose,
  kWrongKey,
  kWrongJob,
  kWrongUser
};

std::string describe_reason(uint8_t reason) {
  switch (reason) {
    case kWrongSession: return "it belongs to another communicator or another start of the job";
    case kWrongReceiver: return "the connection was meant for another rank";
    case kWrongSender: return "the dialling rank is not one of the group";
    case kWrongPurpose: return "the purpose of the connection is not known";
    case kWrongKey: return "the keys differ; is RINGWOOD_KEY_FILE the same on all hosts?";
    case kWrongJob: return "it belongs to another job";
    default: return fmt::format("for reason {}", reason);
  }
}

Bytes bytes_of(const JobIdentity& job) {
  const std::string text = encode(job);
  Bytes bytes(text.begin(), text.end());
  bytes.resize(kJobBytes);
  return bytes;
}

// False: that is none.
bool read_job(std::span<const uint8_t> bytes, JobIdentity& job) {
  ByteReader in(bytes);
  fields(in, job);
  return in.ok();
}

bool is_known(Purpose purpose) {
  return purpose == Purpose::control || purpose == Purpose::store ||
         purpose >= Purpose::first_of_transports;
}

// `told`: of the sizes of its message, which differ by label.
std::array<uint8_t, kMacBytes> mac(const Identity& me, std::string_view label,
                                   std::span<const uint8_t> told, const Bytes& hello,
                                   std::span<const uint8_t> nonce) {
  Bytes text(label.begin(), label.end());
  text.insert(text.end(), told.begin(), told.end());
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

Bytes challenge_with(uint8_t refusal, uint32_t mine, uint32_t theirs) {
  Bytes challenge;
  challenge.reserve(kChallengeBytes);
  ByteWriter out(challenge);
  out.number(kProtocolVersion);
  out.number(refusal);
  out.number(mine);
  out.number(theirs);
  challenge.resize(kChallengeBytes);
  return challenge;
}

}  // namespace

Bytes refuse_user(uint32_t mine, uint32_t theirs) {
  return challenge_with(kWrongUser, mine, theirs);
}

DialSteps::DialSteps(const Identity& me, const Greeting& greeting)
    : me_(me), wanted_(kChallengeBytes) {
  ByteWriter out(hello_);
  out.number(kMagic);
  out.number(kProtocolVersion);
  out.raw(me.session);
  out.number(greeting.purpose);
  out.number(greeting.channel);
  out.number(greeting.from);
  out.number(greeting.to);
  out.raw(random_key());
  out.raw(bytes_of(me.job));
}

Bytes DialSteps::refuse(ErrorCode code, std::string why) {
  wanted_ = 0;
  error_ = Error(code, std::move(why));
  return {};
}

Bytes DialSteps::take_challenge(std::span<const uint8_t> message) {
  ByteReader in(message);
  if (const auto version = in.number<uint16_t>(); version != kProtocolVersion) {
    return refuse(ErrorCode::unsupported,
                  fmt::format("the other side speaks version {} of the protocol, this one version "
                              "{}; install the same release on all hosts",
                              version, kProtocolVersion));
  }
  const auto refusal = in.number<uint8_t>();
  const auto user = in.number<uint32_t>(), own = in.number<uint32_t>();
  if (refusal == kWrongUser)
    return refuse(ErrorCode::invalid_argument,
                  fmt::format("the other side refused the connection: it is of user {}, this "
                              "process of user {}",
                              user, own));
  if (refusal != 0 || user != 0 || own != 0 ||
      in.take(kNonceAt - in.size()).find_first_not_of('\0') != std::string_view::npos)
    return refuse(ErrorCode::invalid_argument,
                  "what the other side sent is not a Ringwood handshake");
  nonce_.assign(message.begin() + kNonceAt, message.end());
  wanted_ = kResultBytes;
  auto proof = mac(me_, "dial", {}, hello_, nonce_);
  return Bytes(proof.begin(), proof.end());
}

// A peer that does not know the key can send anything but a welcome.
Bytes DialSteps::take_result(std::span<const uint8_t> message) {
  wanted_ = 0;
  const uint8_t reason = message[0];
  const auto told = message.first(kResultBytes - kMacBytes);
  const bool proved = same(message.subspan(told.size()), mac(me_, "accept", told, hello_, nonce_));
  welcome_ = proved && reason == kWelcome;
  ByteReader(told.subspan(1)).raw(session_);
  if (welcome_) return {};
  if (!proved) {
    return refuse(ErrorCode::invalid_argument,
                  "the other side is not the expected one: " + describe_reason(kWrongKey));
  }
  JobIdentity theirs;
  std::string why;
  if (reason == kWrongJob && read_job(told.subspan(1 + kSessionBytes), theirs))
    why = difference(me_.job, theirs);
  return refuse(ErrorCode::invalid_argument, "the other side refused the connection: " +
                                                 (why.empty() ? describe_reason(reason) : why));
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
  ByteReader in(message);
  if (in.number<uint32_t>() != kMagic) {
    error_ = Error(ErrorCode::invalid_argument, "what it sent is not a Ringwood handshake");
    return {};
  }
  if (const auto version = in.number<uint16_t>(); version != kProtocolVersion) {
    error_ = Error(ErrorCode::unsupported,
                   fmt::format("it speaks version {} of the protocol, this side version {}",
                               version, kProtocolVersion));
    return challenge_with(0, 0, 0);
  }
  std::array<uint8_t, kSessionBytes> session;
  in.raw(session);
  greeting_.purpose = static_cast<Purpose>(in.number<uint16_t>());
  in.number(greeting_.channel);
  in.number(greeting_.from);
  in.number(greeting_.to);
  if (!is_known(greeting_.purpose)) objection_ = kWrongPurpose;
  if (greeting_.from < 0 || greeting_.from >= me_.size || greeting_.from == me_.rank)
    objection_ = kWrongSender;
  if (greeting_.to != me_.rank) objection_ = kWrongReceiver;
  const bool first = greeting_.purpose == Purpose::store && session == decltype(session){};
  if (!first && !same(session, me_.session)) objection_ = kWrongSession;
  wanted_ = kJobBytes;
  return {};
}

Bytes AcceptSteps::take_job(std::span<const uint8_t> message) {
  hello_.insert(hello_.end(), message.begin(), message.end());
  wanted_ = 0;
  JobIdentity theirs;
  if (!read_job(message, theirs)) {
    error_ = Error(ErrorCode::invalid_argument, "what it sent is not a Ringwood handshake");
    return {};
  }
  difference_ = difference(me_.job, theirs);
  if (!difference_.empty()) objection_ = kWrongJob;
  nonce_ = random_key();
  wanted_ = kProofBytes;
  Bytes challenge = challenge_with(0, 0, 0);
  std::copy(nonce_.begin(), nonce_.end(), challenge.begin() + kNonceAt);
  return challenge;
}

// Nothing that depends on the key is sent before the dialler has proved that it knows it.
Bytes AcceptSteps::take_proof(std::span<const uint8_t> message) {
  wanted_ = 0;
  const bool proved = same(message, mac(me_, "dial", {}, hello_, nonce_));
  const uint8_t reason = proved ? objection_ : uint8_t(kWrongKey);
  welcome_ = reason == kWelcome;
  if (!welcome_)
    error_ = Error(ErrorCode::invalid_argument,
                   reason == kWrongJob ? difference_ : describe_reason(reason));
  Bytes result = {reason};
  if (proved) {
    ByteWriter out(result);
    out.raw(me_.session);
    out.raw(bytes_of(me_.job));
    out.raw(mac(me_, "accept", result, hello_, nonce_));
  }
  result.resize(kResultBytes);
  return result;
}

Bytes AcceptSteps::take(std::span<const uint8_t> message) {
  if (wanted_ == kHelloBytes) return take_hello(message);
  return wanted_ == kJobBytes ? take_job(message) : take_proof(message);
}

Result<Greeting> AcceptSteps::result() const {
  if (welcome_) return greeting_;
  return error_;
}

}  // namespace ringwood
