// Every decoder of bytes that strangers or peers may have made, fed with mutations of good
// messages: seeded, so that a failure repeats, and bounded by rounds. Run under the address
// sanitizer.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store_wire.h"
#include "transports/control/control_messages.h"

namespace ringwood {
namespace {

// Flips, cuts, doubles, inserts and splices, a few at a time.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}
  std::string operator()(std::string text, const std::vector<std::string>& others) {
    for (size_t i = 1 + below(4); i > 0; --i) once(text, others);
    return text;
  }
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

 private:
  void once(std::string& text, const std::vector<std::string>& others) {
    constexpr char kEdges[] = {0, 1, 0x7f, char(0x80), char(0xff)};
    const size_t at = below(text.size() + 1);
    const std::string& other = others[below(others.size())];
    switch (below(6)) {
      case 0: text.resize(at); break;
      case 1: text.insert(at, text.substr(0, below(text.size() + 1))); break;
      case 2: text.insert(at, 1 + below(40), kEdges[below(sizeof(kEdges))]); break;
      case 3: text = text.substr(0, at) + other.substr(below(other.size() + 1)); break;
      case 4:
        if (at < text.size()) text[at] = kEdges[below(sizeof(kEdges))];
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(random_());
    }
    if (text.size() > 8192) text.resize(8192);
  }
  std::mt19937 random_;
};

Identity somebody() {
  Identity me;
  me.key.fill(7);
  me.session.fill(9);
  me.size = 4;
  return me;
}

Error an_error() {
  Error error(ErrorCode::timeout, "the cause");
  error.rank = 1;
  error.host = "host";
  error.collective = "all_reduce";
  return error;
}

struct Decoder {
  const char* name;
  std::vector<std::string> (*good)();
  void (*decode)(const std::string& bytes);
};

std::vector<std::string> store_requests() {
  using store_wire::encode_request, store_wire::Operation;
  return {encode_request(Operation::set, "key", "value"),
          encode_request(Operation::get, "key", std::string(8, '\x01')),
          encode_request(Operation::add, "k", std::string(8, '\xff')),
          encode_request(Operation::remove, "", "")};
}
void decode_store_request(const std::string& bytes) {
  store_wire::RequestHeader header;
  if (!store_wire::decode_request_header(bytes.substr(0, store_wire::kRequestHeader), header))
    return;
  EXPECT_LE(header.key_bytes, store_wire::kMaxKey);
  EXPECT_LE(header.value_bytes, store_wire::kMaxValue);
}

std::vector<std::string> control_messages() {
  return {frame(MessageType::introduce, encode(Introduction{12, "host"})),
          frame(MessageType::heartbeat, encode(OpStatuses{{3, true, "inside"}, {4, false, ""}})),
          frame(MessageType::failure, encode(an_error())), frame(MessageType::left, encode_rank(2)),
          frame(MessageType::goodbye)};
}
void decode_control_messages(const std::string& bytes) {
  MessageReader reader;
  Message message;
  std::string why;
  reader.append(bytes);
  while (reader.next(message, why) == MessageReader::Found::message) {
    Introduction introduction;
    OpStatuses op_statuses;
    Error error;
    int rank = 0;
    EXPECT_LE(message.body.size(), kMaxBody);
    (void)decode(message.body, introduction);
    (void)decode(message.body, op_statuses);
    (void)decode(message.body, error);
    const bool known = decode_rank(message.body, 4, rank);
    EXPECT_TRUE(!known || (rank >= 0 && rank < 4));
  }
}

std::vector<std::string> hellos() {
  std::vector<std::string> all;
  for (Purpose purpose : {Purpose::control, purpose_of("any"), Purpose::store}) {
    const Bytes hello = DialSteps(somebody(), {purpose, 3, 1, 0}).hello();
    all.emplace_back(hello.begin(), hello.end());
    all.back().resize(all.back().size() + 32);  // a proof
  }
  return all;
}
void accept_bytes(const std::string& bytes) {
  const Identity me = somebody();
  AcceptSteps steps(me);
  for (size_t at = 0; steps.wanted() > 0 && at + steps.wanted() <= bytes.size();) {
    const Bytes message(bytes.begin() + at, bytes.begin() + at + steps.wanted());
    at += message.size();
    EXPECT_LE(steps.take(message).size(), 64u);
  }
  EXPECT_FALSE(steps.result().ok());
}
void dial_bytes(const std::string& bytes) {
  const Identity me = somebody();
  DialSteps steps(me, {purpose_of("any"), 3, 1, 0});
  for (size_t at = 0; steps.wanted() > 0 && at + steps.wanted() <= bytes.size();) {
    const Bytes message(bytes.begin() + at, bytes.begin() + at + steps.wanted());
    at += message.size();
    EXPECT_LE(steps.take(message).size(), 32u);
  }
  EXPECT_FALSE(steps.result().ok());
}
std::vector<std::string> challenges() {
  return {std::string("\x03\0", 2) + std::string(62, '\0') + std::string(33, '\0'),
          std::string("\x03\0", 2) + std::string(30, '\0') + std::string(65, 'n')};
}

std::vector<std::string> addresses() { return {"10.0.0.1:4000,[fd00::1%eth0]:4000", "host:1"}; }
void parse_addresses(const std::string& bytes) {
  try {
    for (const NetAddress& one : parse_net_addresses(bytes))
      EXPECT_TRUE(one.port >= 0 && one.port <= 65535 && !one.host.empty());
    (void)addresses_to_dial(bytes, bytes);
    check_families({bytes, bytes}, {"a", "b"});
  } catch (const Error& error) {
    EXPECT_FALSE(error.cause.empty());
  }
}

const Decoder kDecoders[] = {
    {"store_requests", store_requests, decode_store_request},
    {"control_messages", control_messages, decode_control_messages},
    {"hellos", hellos, accept_bytes},
    {"challenges", challenges, dial_bytes},
    {"addresses", addresses, parse_addresses},
};

class Decoders : public ::testing::TestWithParam<Decoder> {};
INSTANTIATE_TEST_SUITE_P(All, Decoders, ::testing::ValuesIn(kDecoders),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Decoders, TakeAnyBytes) {
  constexpr int kRounds = 20000;
  const std::vector<std::string> good = GetParam().good();
  Mutator mutate(20261122);
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    GetParam().decode(mutate(good[mutate.below(good.size())], good));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ringwood
