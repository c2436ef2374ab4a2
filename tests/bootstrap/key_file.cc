// The file with the job's secret: which are taken, and what is said of the others.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/bootstrap/handshake.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

TEST(KeyFile, SecretsAreChecked) {
  struct Case {
    std::string secret;
    mode_t mode;
    const char* text;  // "" = good
  };
  auto random = [](size_t bytes) {
    std::string secret;
    while (secret.size() < bytes) {
      auto more = random_key();
      secret.append(more.begin(), more.end());
    }
    return secret.substr(0, bytes);
  };
  const Case cases[] = {
      {random(32), 0600, ""},
      {random(4096), 0400, ""},
      {"5cd2eb0a3f6a1d0c4be0f5f2b8a790e15cd2eb0a3f6a1d0c4be0f5f2b8a790e1\n", 0600, ""},
      {random(16), 0600, "a secret has 32 to 4096 random bytes"},
      {random(31), 0600, "a secret has 32 to 4096 random bytes"},
      {random(4097), 0600, "a secret has 32 to 4096 random bytes"},
      {std::string(64, 's'), 0600, "its content is not random"},
      {"", 0600, "a secret has 32 to 4096 random bytes"},
      {random(32), 0644, "other users may read it"},
      {random(32), 0604, "other users may read it"},
      {random(32), 0660, "other users may read it"}};
  for (const Case& c : cases) {
    TemporaryPath place;
    FILE* file = fopen(place.path().c_str(), "w");
    ASSERT_NE(file, nullptr);
    fwrite(c.secret.data(), 1, c.secret.size(), file);
    fclose(file);
    chmod(place.path().c_str(), c.mode);
    if (*c.text == '\0') {
      EXPECT_EQ(key_from_file(place.path()), key_from_file(place.path()));
      EXPECT_NE(key_from_file(place.path()), random_key());
    } else {
      Error error = error_of([&] { key_from_file(place.path()); });
      EXPECT_EQ(error.code, ErrorCode::invalid_argument);
      EXPECT_PRED2(contains, error.cause, place.path() + ": " + c.text);
      EXPECT_PRED2(contains, error.cause, "head -c 32 /dev/urandom > \"" + place.path());
    }
  }
  EXPECT_PRED2(contains, error_of([] { key_from_file("/no/such/key"); }).cause,
               "No such file or directory");
  EXPECT_PRED2(contains, error_of([] { key_from_file("/root/.."); }).cause, "key file /root/..: ");
}

TEST(KeyFile, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  TemporaryPath place;
  auto secret = random_key();
  FILE* file = fopen(place.path().c_str(), "w");
  ASSERT_NE(file, nullptr);
  fwrite(secret.data(), 1, secret.size(), file);
  fclose(file);
  chmod(place.path().c_str(), 0600);
  ASSERT_EQ(chown(place.path().c_str(), 65534, 65534), 0);
  EXPECT_PRED2(contains, error_of([&] { key_from_file(place.path()); }).cause,
               "it belongs to another user");
}

TEST(KeyFile, RandomKeysDiffer) {
  EXPECT_NE(random_key(), random_key());
  EXPECT_NE(random_session(), random_session());
}

}  // namespace
}  // namespace ringwood
