// The lines of RAS's protocol, and who is told which events.
#include "tools/top/ras/ras.h"

#include <gtest/gtest.h>

#include "tools/top/ras/ras_facts.h"

namespace ringwood::tools {
namespace {

TEST(Ras, AnswersEachLine) {
  const std::pair<const char*, const char*> rows[] = {
      {"CLIENT PROTOCOL 2", "SERVER PROTOCOL 2\n"},
      {"client protocol 3\r", "SERVER PROTOCOL 2\n"},
      {"TIMEOUT 0", "OK\n"},
      {"timeout 5", "OK\n"},
      {"TIMEOUT 0.5", "OK\n"},
      {"TIMEOUT -1", "ERROR: Invalid timeout value -1\n"},
      {"TIMEOUT 5s", "ERROR: Invalid timeout value 5s\n"},
      {"TIMEOUT inf", "ERROR: Invalid timeout value inf\n"},
      {"TIMEOUT nan", "ERROR: Invalid timeout value nan\n"},
      {"TIMEOUT ", "ERROR: Invalid timeout value \n"},
      {"SET FORMAT JSON", "OK\n"},
      {"SET FORMAT xml", "ERROR: Invalid format xml\n"},
      {"MONITOR bogus", "ERROR: Invalid event group 'bogus'\n"},
      {"MONITOR lifecycle,bogus", "ERROR: Invalid event group 'bogus'\n"},
      {"MONITOR lifecycle, trace", "ERROR: Invalid event group ' trace'\n"},
      {"monitoring", "ERROR: Unknown command monitoring\n"},
      {"", "ERROR: Unknown command \n"},
  };
  for (const auto& [line, reply] : rows) {
    RasSession session([] { return nullptr; });
    EXPECT_EQ(session.take(line), reply) << line;
    EXPECT_FALSE(session.finished()) << line;
    EXPECT_FALSE(session.monitors()) << line;
  }
}

TEST(Ras, NamesCollectivesAsNcclDoes) {
  const std::pair<Collective, const char*> rows[] = {
      {Collective::all_reduce, "AllReduce"},         {Collective::all_gather, "AllGather"},
      {Collective::reduce_scatter, "ReduceScatter"}, {Collective::all_to_all, "AlltoAll"},
      {Collective::broadcast, "Broadcast"},          {Collective::reduce, "Reduce"}};
  for (const auto& [collective, name] : rows) EXPECT_EQ(nccl_name(collective), name);
}

TEST(Ras, TellsTheEventsThatWereAskedFor) {
  struct Row {
    const char* line;
    bool lifecycle, trace;
  };
  const Row rows[] = {{"MONITOR", true, false},
                      {"monitor  ", true, false},
                      {"MONITOR lifecycle", true, false},
                      {"MONITOR trace", false, true},
                      {"MONITOR Trace,LifeCycle", true, true},
                      {"MONITOR all", true, true}};
  for (const Row& row : rows) {
    RasSession session([] { return nullptr; });
    EXPECT_EQ(session.take(row.line), "OK\n") << row.line;
    EXPECT_TRUE(session.monitors());
    const JobEvent stopped{.kind = EventKind::stopped, .group = "", .host = "", .text = ""};
    const JobEvent late{.kind = EventKind::late, .group = "", .host = "", .text = ""};
    EXPECT_EQ(!session.notice(stopped).empty(), row.lifecycle) << row.line;
    EXPECT_EQ(!session.notice(late).empty(), row.trace) << row.line;
  }
}

}  // namespace
}  // namespace ringwood::tools
