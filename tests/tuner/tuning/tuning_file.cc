// The tuning file: what it says comes back, what is wrong in it is a sentence, and what a group on
// these hosts chooses by it.
#include "collectives/tuner/tuning/tuning_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/tuner/tuning/find_tuning.h"
#include "tests/base/scoped_environment.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// All send to rank 1, which adds up and sends back.
constexpr const char* kStar =
    "schedule rank 0 of 3 chunks 1\nsend 1 [0]\nrecv 1 [0]\n"
    "schedule rank 1 of 3 chunks 1\n"
    "recv_reduce 0 [0]\nrecv_reduce 2 [0]\nsend 0 [0]\nsend 2 [0]\n"
    "schedule rank 2 of 3 chunks 1\nsend 1 [0]\nrecv 1 [0]\n";

struct Folder {
  ~Folder() { std::filesystem::remove_all(name.path()); }
  const std::string& path() const { return name.path(); }
  const TemporaryPath name;
};

TunedRange a_range(Collective collective, const std::string& algorithm, size_t from, size_t to) {
  TunedRange r;
  r.collective = collective;
  r.algorithm = r.proved = algorithm;
  r.from = from;
  r.to = to;
  r.verified = true;
  r.with = "float32,sum,private";
  r.points = {{from, {7e-6, 6e-6, 8e-6}, "direct", 1, {12e-6, 11e-6, 13e-6}, 9}};
  return r;
}

TuningFile a_file() {
  TuningFile file;
  file.measured = "2026-11-23";
  file.version = "0.1.0";
  file.seed = 7;
  file.fingerprint = {
      {0, 0, 1}, {}, "a processor; 10000 Mbit/s; shm+tcp", "sockets:0", table_hash()};
  file.links = {{"RINGWOOD_TCP_SOCKETS", "3"}};
  file.schedules = {{"star", ProvedSchedules::parse(Collective::all_reduce, kStar)}};
  file.ranges = {a_range(Collective::all_reduce, "ring", 1024, 4096),
                 a_range(Collective::all_reduce, "star", 8192, 16384),
                 a_range(Collective::broadcast, "linear", 8, 64)};
  file.ranges[0].segments = file.ranges[0].proved_segments = 3;
  file.ranges[2].root = 2;
  for (TunedRange& r : file.ranges) r.schedule = schedules_hash(schedules_of(file, r));
  file.ranges.push_back(a_range(Collective::all_reduce, "", 65536, 65536));
  return file;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = print(a_file());
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(std::min(at, text.size()), from.size(), to);
}

TEST(TuningFile, ComesBackAsItWasPrinted) {
  const TuningFile file = a_file();
  EXPECT_EQ(parse_tuning_file(print(file)), file) << print(file);
  EXPECT_EQ(objection_to_rows(file), "");
  EXPECT_EQ(summary(file),
            "3 ranges for 2 collectives, measured 2026-11-23, links RINGWOOD_TCP_SOCKETS=3");
}

// Files of before do not have them.
TEST(TuningFile, MaySetLinksOrNot) {
  TuningFile file = parse_tuning_file(changed("links RINGWOOD_TCP_SOCKETS=3\n", ""));
  EXPECT_TRUE(file.links.empty());
  EXPECT_EQ(print(file).find("\nlinks"), std::string::npos);
  EXPECT_EQ(summary(file), "3 ranges for 2 collectives, measured 2026-11-23");
  file = parse_tuning_file(
      changed("links ", "  links RINGWOOD_SHM_RING_BYTES=64K  RINGWOOD_VERBS_QPS=2 "));
  EXPECT_EQ(print(file.links),
            "RINGWOOD_TCP_SOCKETS=3 RINGWOOD_VERBS_QPS=2 RINGWOOD_SHM_RING_BYTES=65536");
  EXPECT_EQ(parse_tuning_file(print(file)), file);
}

TEST(TuningFile, IsRefusedWithASentence) {
  const struct {
    std::string text, why;
  } cases[] = {
      {"", "it does not begin with ringwood-tuning-1"},
      {"ringwood-tuning-1\n", "there is no line 'group'"},
      {changed("ringwood-tuning-1", "ringwood-tuning-9"), "it does not begin with"},
      {changed("use=ring", "use=rong"), "there is no algorithm 'rong' for all_reduce with 3 ranks"},
      {changed("segments=3", "segments=4000000000"), "segments=4000000000 is not a number from 1"},
      {changed("segments=3", "segments=-1"), "segments=-1 is not a number"},
      {changed("to=4096", "to=9000"), "the ranges of all_reduce from 1024 and from 8192 overlap"},
      {changed("to=4096", "to=1000"), "to=1000 is not a number from 1024"},
      {changed("wrong=0", "wrong=3"), "its results were wrong"},
      {changed("SOCKETS=3", "SOCKETS=17"),
       "RINGWOOD_TCP_SOCKETS=17: expected a number from 0 to 16"},
      {changed("SOCKETS=3", "SOCKETS="), "RINGWOOD_TCP_SOCKETS=: expected a number"},
      {changed("SOCKETS=3", "SOCKETS=3 RINGWOOD_TCP_SOCKETS=3"), "occurs twice"},
      {changed("links RINGWOOD_TCP", "links RINGWOOD_TIMEOUT=1 RINGWOOD_TCP"),
       "'RINGWOOD_TIMEOUT=1' is no setting of links, which are RINGWOOD_TCP_SOCKETS, "},
      {changed("links RINGWOOD_TCP", "links \nlinks RINGWOOD_TCP"), "it has no settings"},
      {changed("links RINGWOOD_TCP", "links RINGWOOD_VERBS_QPS=2\nlinks RINGWOOD_TCP"),
       "a second line 'links'"},
      {changed("links RINGWOOD_TCP", "links " + std::string(kMaxLinkSettings, 'x') + " RINGWOOD"),
       "bytes of settings are more than the 512 allowed"},
      {changed("root=2", "root=3"), "root=3 is not a number from 0 to 2"},
      {changed("ranks=3", "ranks=4"), "do not place 4 ranks"},
      {changed("hosts=0*2,1", "hosts=99999999"), "hosts"},
      {changed("tolerance=0", "tolerance=nan"), "tolerance=nan is not a number"},
      {changed("us=7,6,8", "us=9,6,8"), "is not median,low,high"},
      {changed("wire=float32", "wire=int8"), "a wire format needs a tolerance"},
      {changed("send 2 [0]\n", "send 2 [0]\nsend 2 [0]\n"), "line "},
      {changed("name=star", "name=ring"), "is taken by the table of algorithms"},
      {changed("  proof", "  proof again=1"), "again= is not known here"},
      {changed("range collective", "wrong collective"), "'wrong' is not known"},
      {print(a_file()) + std::string(kMaxTuningText, '\n'), "bytes are more than"},
  };
  for (const auto& c : cases) {
    const Error error = error_of([&] { parse_tuning_file(c.text); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_PRED2(contains, error.cause, c.why);
  }
}

TEST(TuningFile, ProvesTheSchedulesInIt) {
  const std::string text = changed("recv_reduce 2 [0]\nsend 0 [0]", "send 0 [0]");
  const size_t at = text.find("lines=");
  const std::string shorter = std::string(text).replace(at, 8, "lines=10");
  EXPECT_PRED2(contains, error_of([&] { parse_tuning_file(shorter); }).cause,
               "these schedules are no all_reduce");
  EXPECT_PRED2(contains,
               error_of([&] {
                 parse_tuning_file(changed("of 3 chunks 1\nsend", "of 3 chunks 16777216\nsend"));
               }).cause,
               "more chunks than");
}

TEST(TuningFile, ATableThatChangedIsNoticed) {
  TuningFile file = a_file();
  file.ranges[0].schedule ^= 1;
  EXPECT_EQ(objection_to_rows(file), "ring of all_reduce is not the schedule that was tuned");
  TuningFingerprint other = file.fingerprint;
  EXPECT_EQ(difference(file.fingerprint, other), "");
  other.hardware = "another one";
  EXPECT_EQ(
      difference(file.fingerprint, other),
      "the hardware is 'another one', but 'a processor; 10000 Mbit/s; shm+tcp' when it was tuned");
  other = file.fingerprint;
  TuningFingerprint tuned = other;
  tuned.knobs = "sockets:4,spin:-1,shm:1048576";
  other.knobs = "sockets:0,spin:-1,shm:65536";
  EXPECT_EQ(difference(tuned, other),
            "the links' knobs are 'sockets:0,shm:65536', but 'sockets:4,shm:1048576' when it was "
            "tuned");
  other.knobs = "sockets:0,spin:-1";
  EXPECT_EQ(difference(tuned, other),
            "the links' knobs are 'sockets:0,spin:-1', but 'sockets:4,spin:-1,shm:1048576' when "
            "it was tuned");
  other = file.fingerprint;
  other.hosts.push_back(1);
  EXPECT_PRED2(contains, difference(file.fingerprint, other), "number of ranks is '4', but '3'");
}

// Somebody's own ranges and `use=`: taken as they are written, and proved once more.
TEST(TuningFile, MayBeEdited) {
  const TuningFile original = a_file();
  const std::string own =
      "range collective=all_gather root=0 types=exact from=0 to=64 tolerance=0 use=ring "
      "segments=2 wire=float32\n";
  const struct {
    std::string text;
    size_t range;
    std::string algorithm;
    bool is_edited;
  } cases[] = {
      {changed("use=ring", "use=direct"), 0, "direct", true},
      {changed("use=star", "use=ring"), 1, "ring", true},
      {changed("use=default", "use=ring"), 3, "ring", true},
      {changed("use=ring", "use=default"), 0, "", true},
      {changed("segments=3", "segments=8"), 0, "ring", true},
      {changed("from=1024 to=4096", "from=512 to=5000"), 0, "ring", false},
      {changed("schedule name=star", own + "schedule name=star"), 4, "ring", true},
      {changed("row=ring segments=3 ", ""), 0, "ring", false},  // of a version before
  };
  for (const auto& c : cases) {
    const TuningFile file = parse_tuning_file(c.text);
    ASSERT_GT(file.ranges.size(), c.range);
    const TunedRange& range = file.ranges[c.range];
    EXPECT_EQ(range.algorithm, c.algorithm);
    EXPECT_EQ(edited(range), c.is_edited) << c.text;
    EXPECT_EQ(objection_to_rows(file), "") << c.text;
    EXPECT_EQ(parse_tuning_file(print(file)), file) << print(file);
  }
  const auto file = std::make_shared<const TuningFile>(parse_tuning_file(cases[0].text));
  EXPECT_PRED2(contains, summary(*file), "measured 2026-11-23, 1 edited, links ");
  EXPECT_EQ(parse_tuning_file(changed("use=ring", "use=rung"), TunedNames::any).ranges[0].algorithm,
            "rung");
}

TEST(TuningFile, OfAnotherUserIsTrustedOnlyWhereItIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const Folder folder;
  const ScopedEnvironment cache({{"XDG_CACHE_HOME", folder.path()}});
  const TuningFile file = a_file();
  const std::string path = new_tuning_path("", file.fingerprint);
  write_tuning_file(path, file);
  EXPECT_TRUE(find_tuning("", file.fingerprint).file);
  ASSERT_EQ(::chown(path.c_str(), 54321, 54321), 0);
  const FoundTuning found = find_tuning("", file.fingerprint);
  EXPECT_FALSE(found.file);
  EXPECT_TRUE(found.expected);
  EXPECT_PRED2(contains, found.refusal, "is not used: it belongs to user 54321; delete it");
  EXPECT_TRUE(find_tuning(tuning_folder(""), file.fingerprint).file) << "a folder that is named";
  EXPECT_TRUE(find_tuning(path, file.fingerprint).file) << "a file that is named";
}

TEST(TuningFile, IsFoundByItsFingerprint) {
  const Folder folder;
  const TuningFile file = a_file();
  const std::string path = tuning_path(folder.path(), file.fingerprint);
  EXPECT_FALSE(may_be_tuned("off"));
  write_tuning_file(path, file);
  EXPECT_TRUE(may_be_tuned(folder.path()));
  EXPECT_EQ(find_tuning(folder.path(), file.fingerprint).file, file);
  EXPECT_EQ(find_tuning(path, file.fingerprint).file, file);
  EXPECT_FALSE(find_tuning("off", file.fingerprint).file);
  TuningFingerprint other = file.fingerprint;
  other.hardware = "another one";
  for (const std::string& knob : {path, folder.path()}) {
    const FoundTuning found = find_tuning(knob, other);
    EXPECT_FALSE(found.file);
    EXPECT_EQ(found.text, "");
    EXPECT_PRED2(contains, found.refusal, "is not used: the hardware is 'another one'");
    EXPECT_PRED2(contains, found.refusal, "run ringwood tune again");
    EXPECT_EQ(found.expected, knob == path);
  }
  std::ofstream(path) << "nonsense";
  EXPECT_PRED2(contains, find_tuning(path, file.fingerprint).refusal, "does not begin with");
  EXPECT_PRED2(contains, find_tuning(path + "/no", file.fingerprint).refusal, "cannot be read");
  EXPECT_PRED2(contains, find_tuning("/dev/zero", file.fingerprint).refusal, "it is no file");
}

ModelQuery query(Collective collective, size_t bytes) {
  ModelQuery q;
  q.collective = collective;
  q.bytes = bytes;
  q.n = 3;
  return q;
}

MachineModel three_ranks() {
  MachineModel machine;
  machine.hosts = {0, 0, 1};
  return machine;
}

constexpr ChosenBy kPredicted = ChosenBy::prediction;

TEST(TunedChoice, TakesARangeWhereItIsMeant) {
  const auto file = std::make_shared<const TuningFile>(a_file());
  ModelTuner tuned(three_ranks(), {}, file), plain(three_ranks(), {});
  const TuningChoice ring = tuned.choose(query(Collective::all_reduce, 2048));
  EXPECT_EQ(ring, (TuningChoice{"ring", 3, WireFormat::exact}));
  EXPECT_EQ(ring.by, ChosenBy::tuning_file);
  EXPECT_NE(plain.choose(query(Collective::all_reduce, 2048)), ring);
  const TuningChoice star = tuned.choose(query(Collective::all_reduce, 8192));
  EXPECT_EQ(star.algorithm, kUserSchedules);
  EXPECT_EQ(star.own, file->schedules[0].schedules);
  for (const size_t bytes : {1023, 4097, 16385, 65536})
    EXPECT_EQ(tuned.choose(query(Collective::all_reduce, bytes)).by, kPredicted) << bytes;

  ModelQuery q = query(Collective::broadcast, 8);
  EXPECT_EQ(tuned.choose(q).by, kPredicted) << "root 0";
  q.root = 2;
  EXPECT_EQ(tuned.choose(q).algorithm, "linear");
  EXPECT_EQ(tuned.choose(q).by, ChosenBy::tuning_file);
  q = query(Collective::all_reduce, 2048);
  q.type = DataType::bfloat16;
  EXPECT_EQ(tuned.choose(q).by, kPredicted) << "sums that are rounded";
  q.type = DataType::float32;
  q.tolerance = 0.1;
  EXPECT_EQ(tuned.choose(q).by, kPredicted) << "another tolerance";
  q.tolerance = 0;
  EXPECT_EQ(tuned.choose(q, "direct").algorithm, "direct");
  EXPECT_EQ(tuned.choose(q, "", 2).by, kPredicted);
}

TEST(TunedChoice, GivesWayToTheUsersOptions) {
  const auto file = std::make_shared<const TuningFile>(a_file());
  Options named, reproducible;
  named.algorithm = "all_reduce:direct";
  reproducible.reproducible = true;
  EXPECT_EQ(
      ModelTuner(three_ranks(), named, file).choose(query(Collective::all_reduce, 2048)).algorithm,
      "direct");
  EXPECT_EQ(
      ModelTuner(three_ranks(), reproducible, file).choose(query(Collective::all_reduce, 2048)).by,
      kPredicted);
}

TEST(TunedChoice, IsExplained) {
  const auto file = std::make_shared<const TuningFile>(a_file());
  ModelTuner tuned(three_ranks(), {}, file);
  for (const auto& [bytes, name] : {std::pair(2048, "ring"), std::pair(8192, "star")}) {
    const auto all = tuned.explain(query(Collective::all_reduce, static_cast<size_t>(bytes)));
    EXPECT_EQ(std::ranges::count_if(all, &Candidate::chosen), 1);
    const Candidate& chosen = *std::ranges::find_if(all, &Candidate::chosen);
    EXPECT_EQ(chosen.algorithm, name);
    EXPECT_PRED2(contains, chosen.why, "tuned: 7 us measured at");
    EXPECT_PRED2(contains, print(all), "chosen: tuned: 7 us");
  }
}

TEST(Medians, AreWithinIntervalsThatCoverThem) {
  EXPECT_EQ(median_of_times({3, 1, 2}), 2);
  EXPECT_EQ(median_of_times({4, 1, 2, 3}), 2.5);
  const MeasuredTime one = measured_time({5}, 1);
  EXPECT_EQ(one, (MeasuredTime{5, 5, 5}));
  // Of 200 samples of 15 from a known distribution, 95 % of the intervals have its median.
  uint64_t state = 1;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 40);
  };
  int covered = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<double> times(15);
    for (double& t : times) t = next();
    const MeasuredTime m = measured_time(times, static_cast<uint64_t>(i));
    EXPECT_TRUE(m.low <= m.median && m.median <= m.high);
    covered += m.low <= (1 << 23) && (1 << 23) <= m.high;
  }
  EXPECT_GE(covered, 180);
  EXPECT_LE(covered, 200);
  EXPECT_TRUE(clears({90, 88, 97}, {101, 100, 102}, 0.02));
  EXPECT_FALSE(clears({90, 88, 99}, {101, 100, 102}, 0.02));
}

}  // namespace
}  // namespace ringwood
