// Who may read the metrics.
#include "tools/top/http.h"

#include <gtest/gtest.h>

namespace ringwood::tools {
namespace {

constexpr const char* kToken = "0123abcd";

std::string status_of(const std::string& request, bool own_user, const std::string& token) {
  const std::string reply = http_reply(
      request, {.own_user = own_user, .token = token, .metrics = [] { return "m 1\n"; }});
  return reply.substr(9, 3);
}

TEST(Http, AnswersItsUserAndWhoBearsTheToken) {
  struct Row {
    const char* headers;
    const char *own, *stranger, *without;  // own user; another, and where there is no token
  };
  const Row rows[] = {
      {"", "200", "401", "401"},
      {"Host: localhost:9464\r\n", "200", "401", "401"},
      {"host: 127.0.0.1\r\n", "200", "401", "401"},
      {"Host: [::1]:9464\r\n", "200", "401", "401"},
      {"Host: evil.example:9464\r\n", "421", "401", "401"},
      {"Host: localhost.evil.example\r\n", "421", "401", "401"},
      {"Host: [\r\n", "421", "401", "401"},
      {"Authorization: Bearer 0123abcd\r\n", "200", "200", "401"},
      {"authorization:  bearer 0123abcd \r\n", "200", "200", "401"},
      {"Host: node-7:9464\r\nAuthorization: Bearer 0123abcd\r\n", "200", "200", "401"},
      {"Authorization: Bearer 0123abce\r\n", "200", "401", "401"},
      {"Authorization: Bearer 0123abc\r\n", "200", "401", "401"},
      {"Authorization: Bearer \r\n", "200", "401", "401"},
      {"Authorization: Basic 0123abcd\r\n", "200", "401", "401"},
      {"X-Authorization: Bearer 0123abcd\r\n", "200", "401", "401"},
  };
  for (const Row& row : rows) {
    const std::string request = std::string("GET /metrics HTTP/1.1\r\n") + row.headers + "\r\n";
    EXPECT_TRUE(is_whole_request(request));
    EXPECT_EQ(status_of(request, true, kToken), row.own) << row.headers;
    EXPECT_EQ(status_of(request, false, kToken), row.stranger) << row.headers;
    EXPECT_EQ(status_of(request, false, ""), row.without) << row.headers;
  }
}

TEST(Http, AnswersWhatItKnows) {
  const std::pair<const char*, const char*> rows[] = {
      {"GET / HTTP/1.0\n\n", "200"},
      {"GET /metrics?x=1 HTTP/1.0\n\n", "200"},
      {"HEAD /metrics HTTP/1.0\n\n", "200"},
      {"GET /metricsx HTTP/1.0\n\n", "404"},
      {"POST /metrics HTTP/1.0\n\n", "405"},
      {"\n\n", "405"},
      {"GET \n\n", "404"},
  };
  for (const auto& [request, status] : rows)
    EXPECT_EQ(status_of(request, true, ""), status) << request;
  EXPECT_FALSE(is_whole_request("GET / HTTP/1.0\r\nHost: x\r\n"));
}

}  // namespace
}  // namespace ringwood::tools
