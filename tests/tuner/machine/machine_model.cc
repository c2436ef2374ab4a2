// The parameters of machines: their text form, and the paths between hosts.
#include "collectives/tuner/machine/machine_model.h"

#include <gtest/gtest.h>

#include "collectives/tuner/machine/places.h"
#include "tests/support/errors.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

TEST(MachineModel, TextGivesBackWhatWasPrinted) {
  MachineModel f;
  f.hosts = {0, 0, 1, 1, 2};
  f.cores = 48;
  f.staged = false;
  f.latency = 0.1 + 0.2;  // no short decimal
  f.net.nic = 1e17 / 3;
  f.net.rails = 2;
  f.net.far = PathParameters{1e-5, 1e9 / 3, 0.5};
  f.net.leaves = {0, 0, 1};
  f.net.exceptions = {{0, 0.25, "node-7.x"}, {1, 0.5, "b", 0}, {1, 0.75, "b", 1}, {2, 1, ""}};
  f.net.rail_of_rank = true;
  EXPECT_EQ(parse_machine_model(print(f)), f);
  EXPECT_EQ(parse_machine_model(print(MachineModel{})), MachineModel{});
}

TEST(MachineModel, PlacesAreWrittenShort) {
  const auto regular = [](int hosts, int each) {
    std::vector<int> places;
    for (int i = 0; i < hosts * each; ++i) places.push_back(i / each);
    return places;
  };
  std::vector<int> irregular = regular(127, 8);
  irregular.insert(irregular.end(), 5, 127);
  const std::pair<std::vector<int>, std::string> cases[] = {
      {{}, ""},
      {{0}, "1x1"},
      {{0, 1, 2}, "3x1"},
      {regular(2048, 8), "2048x8"},
      {{0, 0, 1, 1, 1}, "0*2,1*3"},
      {{0, 1, 0, 1, 1}, "0,1,0,1*2"},
  };
  for (const auto& [places, text] : cases) {
    EXPECT_EQ(print_places(places), text);
    EXPECT_EQ(parse_places("hosts", text), places);
  }
  EXPECT_EQ(parse_places("hosts", print_places(irregular)), irregular);
  EXPECT_EQ(parse_places("hosts", "0,0,1,1,1"), cases[4].first);
}

TEST(MachineModel, APathIsNearOrFar) {
  MachineModel f;
  f.net.far = PathParameters{9e-6, 1e8, 0.5};
  const PathParameters near{f.net.latency, f.net.nic, f.net.both_ways};
  EXPECT_EQ(path(f, 8, 0, 1), near);
  EXPECT_EQ(path(f, 8, 7, 0), near);
  EXPECT_EQ(path(f, 8, 0, 4), *f.net.far);
  f.net.leaves = {0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_EQ(path(f, 8, 0, 3), near);
  EXPECT_EQ(path(f, 8, 3, 4), *f.net.far);
  f.net.far.reset();
  EXPECT_EQ(path(f, 8, 3, 4), near);
}

TEST(MachineModel, APortIsAPartOfTheInterfaceOfItsHost) {
  NetworkParameters net;
  net.rails = 4;
  net.exceptions = {{2, 0.25, "slow"}, {3, 0.5, "x", 1}, {3, 0.25, "x", 2}};
  EXPECT_EQ(port_count(net), 1);
  EXPECT_DOUBLE_EQ(port_rate(net, 1, 0), 1);
  EXPECT_DOUBLE_EQ(port_rate(net, 2, 0), 0.25);
  EXPECT_DOUBLE_EQ(port_rate(net, 3, 0), (1 + 0.5 + 0.25 + 1) / 4);
  EXPECT_EQ(port_of(net, 5, 1, 9, 3), 0);
  net.rail_of_rank = true;
  EXPECT_EQ(port_count(net), 4);
  EXPECT_DOUBLE_EQ(port_rate(net, 1, 3), 0.25);
  EXPECT_DOUBLE_EQ(port_rate(net, 2, 3), 0.25 / 4);
  EXPECT_DOUBLE_EQ(port_rate(net, 3, 1), 0.5 / 4);
  EXPECT_DOUBLE_EQ(port_rate(net, 3, 3), 0.25);
  EXPECT_EQ(port_of(net, 5, 1, 9, 7), 1);
  EXPECT_EQ(port_of(net, 9, 7, 5, 1), 1);
}

TEST(MachineModel, DamagedTextIsRefused) {
  const std::string good = print(MachineModel{});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "does not begin"},
      {"ringwood-machine-9" + good.substr(18), "does not begin"},
      {good.substr(0, good.find(" call=")), "missing or not in its place"},
      {good + " more=1", "the form in which it is printed"},
      {good + " ", "the form in which it is printed"},
      {with("cores=2", "cores=0"), "cores=0 is not a number"},
      {with("cores=2", "cores=+2"), "is not a number"},
      {with("cores=2", "cores=02"), "the form in which it is printed"},
      {with("hosts=", "hosts=1"), "hosts=1 is not"},
      {with("hosts=", "hosts=0,2"), "hosts=2 is not"},
      {with("hosts=", "hosts=0,"), "the form in which it is printed"},
      {with("hosts=", "hosts=0,0,1"), "the form in which it is printed"},
      {with("hosts=", "hosts=0*0"), "hosts=0 is not"},
      {with("hosts=", "hosts=0*32769"), "hosts=32769 is not"},
      {with("hosts=", "hosts=1000x1000"), "more than 32768 entries"},
      {with("hosts=", "hosts=2x"), "hosts= is not"},
      {with("rails=1", "rails=65"), "rails=65 is not"},
      {with("leaves=", "leaves=0,2"), "leaves=2 is not"},
      {with("far=", "far=1,2"), "far= is not"},
      {with("far=", "far=1,0,1"), "far=0 is not"},
      {with("far=", "far=1,2,1.5"), "far=1.5 is not"},
      {with("exceptions=", "exceptions=1:0.5:a,1:0.5:b"), "exceptions=1 is not after 1"},
      {with("exceptions=", "exceptions=1/1:0.5:a,1/0:0.5:b"), "exceptions=1 is not after 1"},
      {with("exceptions=", "exceptions=1/64:0.5:a"), "exceptions=64 is not"},
      {with("rail_of_rank=0", "rail_of_rank=2"), "rail_of_rank=2 is not"},
      {with("exceptions=", "exceptions=1:2:a"), "exceptions=2 is not"},
      {with("exceptions=", "exceptions=1:0.5:a/b"), "a/b is not the name of a host"},
      {with("nodes=", "nodes=1"), "nodes=1 is not"},
      {with("loopback=0", "loopback=2"), "loopback=2 is not"},
      {with("post=", "post=nan"), "is not a number"},
      {with("post=", "post=-"), "is not a number"},
      {with("nic=", "nic=inf"), "is not a number"},
      {with("nic=", "cin="), "nic= is missing"},
      {std::string(300000, 'x'), "longer than"},
  };
  for (const auto& [text, why] : cases)
    EXPECT_PRED2(contains, error_of([&] { parse_machine_model(text); }).cause, why) << text;
}

}  // namespace
}  // namespace ringwood
