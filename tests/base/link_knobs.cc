// Settings of links as a text: what it may say, and whose they are.
#include "transports/base/knobs/link_knobs.h"

#include <gtest/gtest.h>

#include "tests/base/scoped_environment.h"
#include "tests/support/errors.h"
#include "transports/base/knobs/knobs.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

TEST(LinkKnobs, AreInTheTable) {
  for (const char* const name : kLinkKnobs)
    EXPECT_EQ(std::ranges::count(knobs(), std::string_view(name),
                                 [](const Knob& knob) { return std::string_view(knob.name); }),
              1)
        << name;
}

TEST(LinkKnobs, AreReadAndShown) {
  const struct {
    const char *text, *shown;
  } cases[] = {{"", ""},
               {"  ", ""},
               {"RINGWOOD_TCP_SOCKETS=8", "RINGWOOD_TCP_SOCKETS=8"},
               {" RINGWOOD_SHM_RING_BYTES=1M   RINGWOOD_TCP_SOCKETS=08 ",
                "RINGWOOD_TCP_SOCKETS=8 RINGWOOD_SHM_RING_BYTES=1048576"},
               {"RINGWOOD_VERBS_RING_BYTES=64K RINGWOOD_VERBS_QPS=128",
                "RINGWOOD_VERBS_QPS=128 RINGWOOD_VERBS_RING_BYTES=65536"}};
  for (const auto& c : cases) {
    const LinkSettings settings = parse_link_settings(c.text);
    EXPECT_EQ(print(settings), c.shown);
    EXPECT_EQ(parse_link_settings(print(settings)), settings);
    EXPECT_LE(print(settings).size(), kMaxLinkSettings);
  }
  const Options options =
      with(Options(), parse_link_settings("RINGWOOD_VERBS_QPS=4 RINGWOOD_SHM_RING_BYTES=4K"));
  EXPECT_EQ(options.verbs.queue_pairs, 4);
  EXPECT_EQ(options.shm_ring_bytes, 4096u);
  EXPECT_EQ(options.tcp_sockets, Options().tcp_sockets);
}

TEST(LinkKnobs, OfStrangersAreRefusedWithASentence) {
  const struct {
    std::string text, why;
  } cases[] = {
      {"RINGWOOD_TCP_SOCKETS", "is no setting of links, which are RINGWOOD_TCP_SOCKETS, "},
      {"=", "'=' is no setting of links"},
      {"RINGWOOD_KEY_FILE=/etc/passwd", "'RINGWOOD_KEY_FILE=/etc/passwd' is no setting of links"},
      {"RINGWOOD_TCP_SOCKETS=17", "RINGWOOD_TCP_SOCKETS=17: expected a number from 0 to 16"},
      {"RINGWOOD_TCP_SOCKETS=-1", "expected a number from 0 to 16"},
      {"RINGWOOD_TCP_SOCKETS=4x", "expected a number from 0 to 16"},
      {"RINGWOOD_TCP_SOCKETS=", "expected a number from 0 to 16"},
      {"RINGWOOD_VERBS_QPS=99999999999999999999", "expected a number from 1 to 128"},
      {"RINGWOOD_SHM_RING_BYTES=3K", "expected "},
      {"RINGWOOD_SHM_RING_BYTES=1024G", "expected "},
      {"RINGWOOD_VERBS_RING_BYTES=4K", "expected "},
      {"RINGWOOD_TCP_SOCKETS=2 RINGWOOD_TCP_SOCKETS=2", "RINGWOOD_TCP_SOCKETS occurs twice"},
      {"RINGWOOD_TCP_SOCKETS=2\nRINGWOOD_VERBS_QPS=2", "expected a number from 0 to 16"},
      {std::string("\x1b[2J\0x", 6), "'?[2J?x' is no setting of links"},
      {std::string(kMaxLinkSettings + 1, ' '), "more than the 512 allowed"},
  };
  for (const auto& c : cases) {
    const Error error = error_of([&] { parse_link_settings(c.text); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << c.text;
    EXPECT_PRED2(contains, error.cause, c.why);
  }
}

TEST(LinkKnobs, AreTheUsersWhereAVariableOrOptionSetsThem) {
  Options options;
  EXPECT_EQ(chosen_by_user(options), LinkSettings{});
  options.verbs.ring_bytes = 65536;
  EXPECT_EQ(print(chosen_by_user(options)), "RINGWOOD_VERBS_RING_BYTES=65536");
  const ScopedEnvironment environment({{"RINGWOOD_TCP_SOCKETS", "0"},
                                       {"NCCL_IB_QPS_PER_CONNECTION", "2"},
                                       {"RINGWOOD_TIMEOUT", "7"}});
  EXPECT_EQ(print(chosen_by_user(Options::from_environment())),
            "RINGWOOD_TCP_SOCKETS=0 RINGWOOD_VERBS_QPS=2")
      << "also the default's value, where somebody has set it";
  EXPECT_EQ(print(without_defaults(chosen_by_user(Options::from_environment()))),
            "RINGWOOD_VERBS_QPS=2");
}

}  // namespace
}  // namespace ringwood
