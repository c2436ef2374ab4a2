// What only one kind of store does: the file's format and removal, the server under wrong bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <random>
#include <thread>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/bootstrap/sockets.h"
#include "transports/bootstrap/store.h"
#include "transports/bootstrap/store_messages.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// ---- the file ----------------------------------------------------------------------------------

std::string read_file(const std::string& path) {
  FILE* file = fopen(path.c_str(), "rb");
  if (!file) return "";
  std::string text(1 << 20, '\0');
  text.resize(fread(text.data(), 1, text.size(), file));
  fclose(file);
  return text;
}

void write_file(const std::string& path, const std::string& text, mode_t mode = 0600) {
  FILE* file = fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  fwrite(text.data(), 1, text.size(), file);
  fclose(file);
  ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

TEST(FileStore, IsRemovedByTheLastUserOnlyWhenEmpty) {
  TemporaryPath place;
  {
    auto store = file_store(place.path());
    store->set("key", "value");
  }
  EXPECT_EQ(access(place.path().c_str(), F_OK), 0) << "a key is left";
  {
    auto store = file_store(place.path());
    EXPECT_EQ(store->get("key", patiently()), "value");
    store->remove("key");
    EXPECT_LE(read_file(place.path()).size(), 16u) << "an empty store starts over";
  }
  EXPECT_NE(access(place.path().c_str(), F_OK), 0);
}

TEST(FileStore, UserOutlivesAnotherThatRemovedTheFile) {
  TemporaryPath place;
  auto first = file_store(place.path());
  file_store(place.path());  // leaves at once, and nothing was stored
  first->set("key", "value");
  EXPECT_EQ(file_store(place.path())->get("key", patiently()), "value");
}

TEST(FileStore, EveryTornTailIsCutOff) {
  TemporaryPath place;
  file_store(place.path())->set("whole", "value");
  std::string whole = read_file(place.path());
  file_store(place.path())->set("torn", "x");
  std::string both = read_file(place.path());
  ASSERT_GT(both.size(), whole.size());
  for (size_t bytes = whole.size(); bytes < both.size(); ++bytes) {
    write_file(place.path(), both.substr(0, bytes));
    auto store = file_store(place.path());
    EXPECT_EQ(store->get("whole", patiently()), "value") << bytes;
    EXPECT_FALSE(store->has("torn")) << bytes;
    store->set("next", "n");
    EXPECT_EQ(file_store(place.path())->get("next", patiently()), "n") << bytes;
  }
}

TEST(FileStore, OtherFilesAreNotTouched) {
  TemporaryPath place;
  // The second is shorter than a header.
  for (const std::string letter : {"Dear Sir or Madam, this is no store.\n", "Dear Sir"}) {
    write_file(place.path(), letter);
    Error error = error_of([&] { file_store(place.path()); });
    EXPECT_PRED2(contains, error.cause, "is not a Ringwood store; name a file that does not exist");
    EXPECT_EQ(read_file(place.path()), letter);
  }
  EXPECT_TRUE(contains(error_of([] { file_store("/no/such/folder/file"); }).cause,
                       "No such file or directory"));
}

TEST(FileStore, AHeaderThatWasCutIsWrittenAnew) {
  TemporaryPath place;
  file_store(place.path())->set("key", "value");
  const std::string whole = read_file(place.path());
  for (size_t bytes : {0, 1, 8, 15}) {
    write_file(place.path(), whole.substr(0, bytes));
    auto store = file_store(place.path());
    EXPECT_FALSE(store->has("key")) << bytes;
    store->set("next", "n");
    EXPECT_EQ(file_store(place.path())->get("next", patiently()), "n") << bytes;
  }
}

// ---- files of strangers

void expect_refused(const std::string& path, const std::string& why) {
  Error error = error_of([&] { file_store(path); });
  EXPECT_PRED2(contains, error.cause, path + ": " + why);
}

TEST(FileStore, ThatOthersMayReadOrWriteIsRefused) {
  TemporaryPath place;
  file_store(place.path())->set("session", "secret");
  const std::string whole = read_file(place.path());
  for (mode_t mode : {0644, 0660, 0602, 0640}) {
    write_file(place.path(), whole, mode);
    expect_refused(place.path(), "other users may read it");
    EXPECT_EQ(read_file(place.path()), whole);
  }
  ASSERT_EQ(chmod(place.path().c_str(), 0600), 0);
  EXPECT_EQ(file_store(place.path())->get("session", patiently()), "secret");
}

TEST(FileStore, BehindALinkIsRefusedAndNothingIsMadeThere) {
  TemporaryPath place, elsewhere;
  ASSERT_EQ(symlink(elsewhere.path().c_str(), place.path().c_str()), 0);
  expect_refused(place.path(), "it is a symbolic link");
  EXPECT_NE(access(elsewhere.path().c_str(), F_OK), 0);
  write_file(elsewhere.path(), "");
  expect_refused(place.path(), "it is a symbolic link");
  EXPECT_EQ(read_file(elsewhere.path()), "");
}

TEST(FileStore, ThatBecomesALinkWhileItIsUsedIsRefused) {
  TemporaryPath place, elsewhere;
  auto store = file_store(place.path());
  ASSERT_EQ(unlink(place.path().c_str()), 0);
  ASSERT_EQ(symlink(elsewhere.path().c_str(), place.path().c_str()), 0);
  EXPECT_PRED2(contains, error_of([&] { store->set("key", "value"); }).cause,
               "it is a symbolic link");
  EXPECT_NE(access(elsewhere.path().c_str(), F_OK), 0);
}

TEST(FileStore, ThatIsAPipeIsRefused) {
  TemporaryPath place;
  ASSERT_EQ(mkfifo(place.path().c_str(), 0600), 0);
  expect_refused(place.path(), "it is no regular file");
}

TEST(FileStore, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  TemporaryPath place;
  file_store(place.path())->set("session", "of a stranger");
  ASSERT_EQ(chown(place.path().c_str(), 65534, 65534), 0);
  const std::string whole = read_file(place.path());
  Error error = error_of([&] { file_store(place.path()); });
  // Where the kernel protects files in sticky folders, it does not open it either.
  EXPECT_TRUE(contains(error.cause, "it belongs to another user, 65534") ||
              contains(error.cause, "Permission denied"))
      << error.cause;
  EXPECT_EQ(read_file(place.path()), whole);
}

// As NFS does with root's files.
TEST(FileStore, WhoseOwnerTheFileSystemChoosesIsTaken) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else to the file system only";
  constexpr uid_t kNobody = 65534;
  TemporaryPath place;
  setfsuid(kNobody);
  file_store(place.path())->set("key", "value");
  const std::string got = file_store(place.path())->get("key", patiently());
  setfsuid(0);
  struct stat status {};
  ASSERT_EQ(stat(place.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, kNobody);
  EXPECT_EQ(got, "value");
}

// ---- TCP ---------------------------------------------------------------------------------------

TEST(TcpStore, ErrorsSayWhatToDo) {
  auto store = tcp_store("127.0.0.1", 0, true, patiently());
  int port = tcp_store_port(*store);
  auto at = "127.0.0.1:" + std::to_string(port);
  Error taken = error_of([&] { tcp_store("127.0.0.1", port, true, within(1)); });
  EXPECT_EQ(taken.cause, "cannot listen on " + at +
                             ": listen: Address already in use; choose another MASTER_PORT");
  store.reset();
  Error refused = error_of([&] { tcp_store("127.0.0.1", port, false, within(0.2)); });
  EXPECT_TRUE(contains(refused.cause, "cannot reach the store at " + at + " within "))
      << refused.cause;
  EXPECT_TRUE(
      contains(refused.cause, "Connection refused; is rank 0 running there and the port open?"));
  Error unknown = error_of([&] { tcp_store("no-such-host.invalid", 1, false, within(0)); });
  EXPECT_TRUE(contains(unknown.cause, "cannot resolve the host \"no-such-host.invalid\""))
      << unknown.cause;
}

TEST(TcpStore, ClientComesBeforeTheServer) {
  int port = free_port();
  std::string got;
  std::thread client([&] {
    auto store = tcp_store("127.0.0.1", port, false, patiently());
    got = store->get("key", patiently());
    store->set("seen", "1");
  });
  auto server = tcp_store("127.0.0.1", port, true, patiently());
  server->set("key", "value");
  server->get("seen", patiently());
  client.join();
  EXPECT_EQ(got, "value");
}

TEST(TcpStore, EndOfTheServerEndsAWaitingGet) {
  int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    auto store = tcp_store("127.0.0.1", port, rank == 0, patiently());
    store->set("here/" + std::to_string(rank), "1");
    store->get("here/" + std::to_string(1 - rank), patiently());
    reporter.say("ready");
    if (rank == 0) reporter.await_go();
    store->get("never", patiently());
  });
  EXPECT_EQ(ranks.line(0), "ready");
  EXPECT_EQ(ranks.line(1), "ready");
  ranks.signal(0, SIGKILL);
  std::string line = ranks.line(1);
  EXPECT_TRUE(contains(line, "did rank 0 end?")) << line;
}

}  // namespace
}  // namespace ringwood
