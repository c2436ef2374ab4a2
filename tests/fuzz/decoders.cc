// Every decoder of bytes that strangers or peers may have made, in one table: a new message joins
// by a row. Seeded, so that a failure repeats, and bounded; RINGWOOD_RANDOM_SECONDS goes on for
// longer (support/seeds.h). Each decoder is given memory that ends where its bytes do, so that the
// address sanitizer sees a byte too many.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/tuner/machine/probe_messages.h"
#include "collectives/tuner/tuning/link_tuning.h"
#include "tests/fuzz/control_samples.h"
#include "tests/fuzz/file_samples.h"
#include "tests/fuzz/handshake_samples.h"
#include "tests/fuzz/meeting_samples.h"
#include "tests/fuzz/random.h"
#include "tests/fuzz/status_samples.h"
#include "tests/support/allocations.h"
#include "tests/support/seeds.h"
#include "transports/bootstrap/meet/bootstrap_messages.h"
#include "transports/bootstrap/net.h"
#include "transports/bootstrap/store_messages.h"
#include "transports/bootstrap/store_records.h"
#include "transports/verbs/fallback/fallback_connection.h"
#include "transports/verbs/hello.h"
#include "transports/verbs/path/path_address.h"
#include "transports/verbs/rail/addresses.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

enum class Kind {
  message,   // what is accepted is one message and nothing else: no part of it, no tail
  sequence,  // a part of one may be one too
  text,      // likewise, and there may be several for one value
  stranger,  // whatever comes, it is refused
};

struct Decoder {
  const char* name;
  Kind kind;
  std::function<std::string(Random&)> good;
  // What it takes the bytes for, encoded again; nullopt: refused.
  std::function<std::optional<std::string>(std::string_view)> decode;
};

template <class Make>
Decoder message(const char* name, Make make) {
  return {name, Kind::message, [make](Random& random) { return encode(make(random)); },
          [](std::string_view bytes) -> std::optional<std::string> {
            decltype(make(std::declval<Random&>())) value;
            if (!decode(bytes, value)) return std::nullopt;
            return encode(value);
          }};
}

// ---- streams and texts -------------------------------------------------------------------------

std::string record(Random& r) {
  const std::string key = r.text(), value = r.blob();
  return encode_record({key, r.flag() ? std::optional<std::string_view>(value) : std::nullopt});
}

std::optional<std::string> read_record(std::string_view bytes) {
  LogRecord record;
  const size_t read = decode_record(bytes, record);
  EXPECT_LE(read, bytes.size());
  return read > 0 && read == bytes.size() ? std::optional(encode_record(record)) : std::nullopt;
}

std::string frames(Random& r) {
  std::string stream;
  for (size_t left = 1 + r.below(3); left > 0; --left) {
    const std::string payload = r.blob(30);
    stream +=
        encode(verbs::FrameHeader{{r.from(verbs::FrameType::hello, verbs::FrameType::path_refused),
                                   uint8_t(r.bits()), r.bits()},
                                  uint32_t(payload.size())});
    stream += payload;
  }
  return stream;
}

std::optional<std::string> read_frames(std::string_view bytes) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  verbs::FallbackConnection in{OwnedFd(ends[0])};
  const OwnedFd out(ends[1]);
  EXPECT_EQ(::write(out.get(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
  std::string again;
  in.receive([&](const verbs::Frame& frame, std::span<const std::byte> payload) {
    again += encode(verbs::FrameHeader{frame, uint32_t(payload.size())});
    again.append(reinterpret_cast<const char*>(payload.data()), payload.size());
    return true;
  });
  return again.size() == bytes.size() ? std::optional(again) : std::nullopt;
}

std::string net_addresses(Random& r) {
  return r.flag() ? "10.0.0.1:4000,[fd00::1%eth0]:" + std::to_string(r.below(65536)) : "host:1";
}

std::optional<std::string> read_net_addresses(std::string_view bytes) try {
  const std::string text(bytes);
  const std::vector<NetAddress> addresses = parse_net_addresses(text);
  for (const NetAddress& one : addresses)
    EXPECT_TRUE(one.port >= 0 && one.port <= 65535 && !one.host.empty());
  (void)addresses_to_dial(text, text);
  check_families({text, text}, {"a", "b"});
  return to_string(addresses);
} catch (const Error& error) {
  EXPECT_FALSE(error.cause.empty());
  return std::nullopt;
}

// ---- the table ---------------------------------------------------------------------------------

verbs::PathEnd an_end(Random& r) {
  verbs::PathEnd end{r.from(0u, 0xffffffu), r.from(0u, 0xffffffu)};
  if (r.flag()) end.ece = verbs::Ece{uint32_t(r.bits()), uint32_t(r.bits()), uint32_t(r.bits())};
  return end;
}

verbs::RailAddress a_rail(Random& r) {
  return {r.text(), r.flag(), r.bytes<16>(), r.from(0, 0xffff), r.from(256, 4096), r.from(-1, 9)};
}

const Decoder kDecoders[] = {
    message("introductions",
            [](Random& r) {
              return Introduction{r.number(), r.text()};
            }),
    message("left_ranks", [](Random& r) { return LeftRank{r.from(0, 1 << 20)}; }),
    message("op_statuses",
            [](Random& r) -> OpStatuses { return r.some(8, [&] { return a_status(r); }); }),
    message("errors", an_error),
    message("prepare_changes",
            [](Random& r) {
              return PrepareChange{r.from(1u, ~0u), r.text()};
            }),
    message("change_replies",
            [](Random& r) {
              return ChangeReply{r.from(1u, ~0u), r.flag(), r.bits() % kMaxSequence};
            }),
    message("commit_changes",
            [](Random& r) {
              return CommitChange{r.from(1u, ~0u), r.bits() % kMaxSequence};
            }),
    message("path_reports",
            [](Random& r) {
              return PathReport{r.from(0, 1 << 20), r.from(0, 1 << 20), double(r.bits()), 1e9};
            }),
    message("report_queries",
            [](Random& r) {
              return ReportQuery{r.flag(), r.from(0, 1 << 20)};
            }),
    message("report_pages", a_page),
    message("rank_reports", a_report),
    message("trace_queries", a_trace_query),
    message("trace_pieces", a_trace_piece),
    message("abandon_changes", [](Random& r) { return AbandonChange{r.from(1u, ~0u)}; }),
    message("store_requests",
            [](Random& r) {
              using store_messages::Operation;
              const auto what = r.from(Operation::set, Operation::remove);
              const bool number = what == Operation::get || what == Operation::add;
              const uint32_t bytes = what == Operation::set ? r.from(0u, 1u << 20) : 8u * number;
              return store_messages::RequestHeader{what, r.from(0u, 1024u), bytes};
            }),
    message("store_responses",
            [](Random& r) {
              using store_messages::Reply;
              return store_messages::ResponseHeader{r.from(Reply::ok, Reply::refused),
                                                    r.from(0u, 1u << 20)};
            }),
    message("store_numbers", [](Random& r) { return store_messages::Number{int64_t(r.bits())}; }),
    message("log_headers",
            [](Random& r) {
              return LogHeader{r.bits(), r.bits()};
            }),
    message("hellos_in_the_store", a_hello),
    message("welcomes", a_welcome),
    message("contributions", a_contribution),
    message("first_pieces", a_first_piece),
    message("values_of_all", some_values),
    message("rank_introductions", a_rank_introduction),
    message("rank_contacts",
            [](Random& r) {
              return RankContact{r.text(), r.text()};
            }),
    message("rank_facts",
            [](Random& r) {
              return RankFacts{r.text(), r.text()};
            }),
    message("host_facts",
            [](Random& r) {
              return HostFacts{r.text(), r.text(), r.blob(60), r.text()};
            }),
    message("probe_steps",
            [](Random& r) {
              return ProbeStep{r.from(ProbeStage::ping, ProbeStage::end),
                               r.number(),
                               r.number(),
                               r.number(),
                               r.flag(),
                               1e9,
                               r.blob(60)};
            }),
    message("probe_reports",
            [](Random& r) {
              return ProbeReport{double(r.bits()), 1e-6, 2e-6, 1e-9};
            }),
    message("verbs_addresses",
            [](Random& r) {
              return verbs::SharedAddress{
                  r.number(), {r.text(), r.from(-1, 9), r.some(4, [&] { return a_rail(r); })}};
            }),
    message("verbs_hellos",
            [](Random& r) {
              return verbs::Hello{r.text(),
                                  r.bits(),
                                  r.bits(),
                                  r.from(0, 255),
                                  r.from(0, 15),
                                  r.some(4, [&] { return uint32_t(r.bits()); }),
                                  r.some(4, [&] { return an_end(r); })};
            }),
    message("verbs_paths",
            [](Random& r) {
              return verbs::PathAddress{an_end(r),         r.bytes<16>(),      r.from(0, 0xffff),
                                        r.from(256, 4096), uint32_t(r.bits()), r.bits()};
            }),
    message("verbs_refusals", [](Random& r) { return verbs::PathRefusal{r.text()}; }),
    {"log_records", Kind::message, record, read_record},
    {"control_messages", Kind::sequence, control_stream, read_control_stream},
    {"verbs_frames", Kind::sequence, frames, read_frames},
    {"machine_models", Kind::sequence, a_machine, read_machine},
    {"tuning_files", Kind::text, a_tuning_file, read_tuning_file},
    {"link_settings", Kind::text, [](Random& r) { return print(some_link_settings(r)); },
     read_link_settings},
    {"addresses", Kind::text, net_addresses, read_net_addresses},
    {"hellos", Kind::stranger, hello_and_proof,
     [](std::string_view bytes) {
       const Identity me = somebody();
       return shake(AcceptSteps(me), bytes);
     }},
    {"challenges", Kind::stranger, challenge_and_verdict,
     [](std::string_view bytes) {
       const Identity me = somebody();
       return shake(DialSteps(me, {purpose_of("any"), 3, 1, 0}), bytes);
     }},
};

class Decoders : public ::testing::TestWithParam<Decoder> {
 protected:
  bool message() const { return GetParam().kind == Kind::message; }

  // From memory that ends where they do.
  std::optional<std::string> raw_decode(std::string_view bytes) const {
    const std::unique_ptr<char[]> copy(new char[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), copy.get());
    const size_t before = allocated_bytes();
    auto again = GetParam().decode({copy.get(), bytes.size()});
    // A stream is read by pieces of its own size.
    const size_t most = (size_t{256} << 10) + 256 * bytes.size();
    EXPECT_LE(allocated_bytes() - before, most) << "for " << bytes.size() << " bytes";
    return again;
  }

  // What is accepted has one meaning: encoded again it is the same, but for what would steer a
  // terminal. A text may be written otherwise, once.
  bool decode(std::string_view bytes) const {
    const auto again = raw_decode(bytes);
    if (!again) return false;
    EXPECT_NE(GetParam().kind, Kind::stranger) << "let in";
    const auto same = [](char read, char written) {
      return read == written || (written == '?' && (uint8_t(read) < 0x20 || read == 0x7f));
    };
    EXPECT_TRUE(GetParam().kind == Kind::text ? raw_decode(*again) == again
                                              : std::ranges::equal(bytes, *again, same));
    return true;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Decoders, ::testing::ValuesIn(kDecoders),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Decoders, ReadWhatWasWritten) {
  for_seeds(2000, [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string bytes = GetParam().good(random);
    const auto again = raw_decode(bytes);
    if (GetParam().kind == Kind::stranger) {
      EXPECT_EQ(again, std::nullopt);
    } else {
      EXPECT_EQ(again, bytes);
    }
  });
}

TEST_P(Decoders, RefuseEveryPartAndEveryTail) {
  for_seeds(50, [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string bytes = GetParam().good(random);
    for (size_t part = 0; part < bytes.size(); ++part)
      EXPECT_FALSE(decode(bytes.substr(0, part)) && message()) << "cut to " << part;
    for (const std::string& tail : {std::string(1, '\0'), random.blob(40) + "x", bytes})
      EXPECT_FALSE(decode(bytes + tail) && message()) << "and " << tail.size() << " more";
  });
}

TEST_P(Decoders, TakeAnyChangedByte) {
  for_seeds(3, [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string bytes = GetParam().good(random);
    for (size_t at = 0; at < bytes.size() && !HasFailure(); ++at) {
      SCOPED_TRACE(at);
      const char before = bytes[at];
      for (int change = 1; change < 256; ++change) {
        bytes[at] = static_cast<char>(before ^ change);
        (void)decode(bytes);
      }
      bytes[at] = before;
    }
  });
}

TEST_P(Decoders, TakeAnyBytes) {
  for_seeds(20000, [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string bytes = random.blob(80);
    if (seed % 4 != 0) {
      bytes = GetParam().good(random);
      const std::string other = GetParam().good(random);
      for (size_t i = 1 + random.below(4); i > 0; --i) mutate(bytes, other, random);
    }
    (void)decode(bytes);
  });
}

}  // namespace
}  // namespace ringwood
