// Which row and how many blocks a device group takes, several islands (closed forms), and the
// model of an island as text.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "collectives/device/predict_hosts.h"
#include "tests/device/predictions.h"
#include "transports/base/error.h"

namespace ringwood::device {
namespace {

// ---- the choice ---------------------------------------------------------------------------------

TEST(ChooseDevice, TakesPacketsForSmallOnesAndBulkForLargeOnes) {
  DeviceRows rows;
  const auto chosen = [&](size_t bytes) {
    return choose_device(rows, call(Collective::all_reduce, bytes, 8), 8, {});
  };
  EXPECT_EQ(name_of(chosen(8)), "one_shot");
  EXPECT_TRUE(chosen(8).packets);
  EXPECT_EQ(chosen(8).blocks, 1);
  EXPECT_EQ(name_of(chosen(64 * kMiB)), "direct");
  EXPECT_FALSE(chosen(64 * kMiB).packets);
}

TEST(ChooseDevice, TakesTheFewestBlocksOfWhatIsAboutBest) {
  DeviceRows rows;
  for (const size_t bytes : {size_t{8}, size_t{64} << 10, kMiB, 64 * kMiB}) {
    const DeviceChoice chosen = choose_device(rows, call(Collective::all_reduce, bytes, 8), 8, {});
    double best = INFINITY;
    for (const AlgorithmRow* row : rows_with_data(8))
      for (const bool packets : {false, true})
        for (const int blocks : block_counts()) {
          if (row->collective != Collective::all_reduce) continue;
          const DevicePrediction p =
              predicted({row->collective, row->name, packets}, bytes, 8, blocks);
          if (p.packet_bytes <= IslandModel{}.packet_room) best = std::min(best, p.seconds);
        }
    EXPECT_LE(chosen.seconds, best * (1 + kTolerance)) << bytes;
    const RowWay of{Collective::all_reduce, chosen.row->name, chosen.packets};
    if (chosen.blocks > 1) {
      EXPECT_GT(predicted(of, bytes, 8, chosen.blocks / 2).seconds, best * (1 + kTolerance));
    }
  }
}

TEST(ChooseDevice, KeepsToTheRoomAndTheBlocksOfTheModel) {
  DeviceRows rows;
  IslandModel model;
  model.packet_room = 64;
  model.blocks = 4;
  const CollectiveArgs args = call(Collective::all_reduce, kMiB / 16, 8);
  for (const DeviceChoice& one : device_choices(rows, args, 8, model)) {
    EXPECT_FALSE(one.packets) << name_of(one);
    EXPECT_LE(one.blocks, 4) << name_of(one);
  }
  EXPECT_EQ(device_choices(rows, args, 8, model, "ring").size(), 1u);
}

TEST(ChooseDevice, ABarrierIsTheHelloAlone) {
  DeviceRows rows;
  const IslandModel model;
  const DeviceChoice chosen = choose_device(rows, {}, 8, model);
  EXPECT_EQ(name_of(chosen), "hello");
  EXPECT_DOUBLE_EQ(chosen.seconds, model.launch + model.flag);
}

// ---- several islands ----------------------------------------------------------------------------

TEST(DeviceHosts, LargeAllReducesOfTwoByEightTakeWhatTheSlowerPartAllows) {
  DeviceRows rows;
  for (const double rail : {50e9, 10e9})
    for (const int hosts : {2, 4}) {
      IslandModel model;
      model.rail = rail;
      const double bytes = 1024.0 * kMiB;
      const HostsPrediction p =
          predict_hosts(rows, call(Collective::all_reduce, 1024 * kMiB, 8), 8, hosts, model);
      const double inside = 2.0 * 7 / 8 * bytes / model.link;
      const double rails = 2.0 * (hosts - 1) / hosts * bytes / 8 / rail;
      EXPECT_GE(p.seconds, std::max(inside, rails)) << rail << ' ' << hosts;
      EXPECT_LE(p.seconds, std::max(inside, rails) * 1.1) << rail << ' ' << hosts;
      EXPECT_GT(p.pieces, 1);
    }
}

TEST(DeviceHosts, SmallOnesAreLatencies) {
  DeviceRows rows;
  const IslandModel m;
  const HostsPrediction p = predict_hosts(rows, call(Collective::all_reduce, 64, 8), 8, 2, m);
  EXPECT_NEAR(p.seconds, m.launch + 2 * m.flag + m.rail_latency, 0.1e-6);
  EXPECT_EQ(p.pieces, 1);
  const HostsPrediction alone = predict_hosts(rows, call(Collective::all_reduce, 64, 8), 8, 1, m);
  EXPECT_EQ(alone.rails.seconds(), 0);
}

TEST(DeviceHosts, RailsTakeTheBetterOfOneRoundAndTwo) {
  const IslandModel m;
  EXPECT_DOUBLE_EQ(rail_all_reduce(8, 4, m).latency, m.rail_latency);
  EXPECT_DOUBLE_EQ(rail_all_reduce(64e6, 4, m).transfer, 1.5 * 64e6 / m.rail);
}

// ---- the model as text --------------------------------------------------------------------------

TEST(IslandModel, IsPrintedAndParsed) {
  for (const std::string& name : island_presets()) {
    const IslandModel model = island_preset(name);
    EXPECT_EQ(model.name, name);
    EXPECT_EQ(parse_island_model(print(model)), model);
  }
}

TEST(IslandModel, TakesOnesOwnParameters) {
  IslandModel model;
  for (const char* change : {"link=400G", "launch=3us", "blocks=16", "packet_efficiency=0.75"})
    set_parameter(model, change);
  EXPECT_DOUBLE_EQ(model.link, 400e9);
  EXPECT_DOUBLE_EQ(model.launch, 3e-6);
  EXPECT_DOUBLE_EQ(model.blocks, 16);
  EXPECT_EQ(parse_island_model(print(model)), model);
}

TEST(IslandModel, RefusesWhatCannotBe) {
  IslandModel model;
  for (const char* change :
       {"link", "lnk=1G", "link=", "link=4x", "link=nan", "link=-1", "link=400us", "launch=2G",
        "launch=2s", "blocks=65", "blocks=1.5", "blocks=0", "packet_efficiency=2"})
    EXPECT_THROW(set_parameter(model, change), Error) << change;
  EXPECT_EQ(model, IslandModel{});
  const std::string good = print(model);
  for (const std::string& text :
       {std::string(), good + " ", good + " link=1", "ringwood-island-2" + good.substr(17),
        good.substr(0, good.size() - 1) + "x", "ringwood-island-1 name=h_1" + good.substr(27)})
    EXPECT_THROW(parse_island_model(text), Error) << text;
  EXPECT_THROW(island_preset("h1000"), Error);
}

}  // namespace
}  // namespace ringwood::device
