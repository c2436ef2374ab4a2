// Pictures of schedules: what they say, and that they say it the same way every time.
#include "tools/draw/draw.h"

#include <gtest/gtest.h>

#include <regex>

#include "collectives/algorithms/algorithms.h"
#include "tests/support/places.h"

namespace ringwood {
namespace {

std::vector<Schedule> built(Collective collective, const char* name, int n) {
  return build_all(*find_algorithm(collective, name), {0, n, 0, {}});
}

size_t count(const std::string& text, std::string_view word) {
  size_t result = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++result;
  return result;
}

TEST(Draw, ARingGoesRound) {
  EXPECT_EQ(draw_ascii(Collective::all_reduce, built(Collective::all_reduce, "ring", 3)),
            "round  rank 0    rank 1    rank 2\n"
            "0      [0] +> 1  [1] +> 2  [2] +> 0\n"
            "1      [2] +> 1  [0] +> 2  [1] +> 0\n"
            "2      [1] -> 1  [2] -> 2  [0] -> 0\n"
            "3      [0] -> 1  [1] -> 2  [2] -> 0\n");
}

TEST(Draw, SpansAndRowsOfACell) {
  EXPECT_EQ(draw_ascii(Collective::all_gather, built(Collective::all_gather, "bruck", 4)),
            "round  rank 0      rank 1      rank 2      rank 3\n"
            "0      [0] -> 3    [1] -> 0    [2] -> 1    [3] -> 1\n"
            "                                           [3] -> 2\n"
            "1      [0:2] -> 2  [1:3] -> 3  [2:4] -> 0  [0] -> 1\n");
  EXPECT_EQ(print_chunks({}), "");
  EXPECT_EQ(print_chunks({3}), "[3]");
  EXPECT_EQ(print_chunks({0, 2, 4, 5, 6}), "[0 2 4:7]");
}

TEST(Draw, SumsInScratchKeepTheirName) {
  // The partial sums of a ring's reduce-scatter lie in scratch all the way.
  const Picture picture =
      lay_out(Collective::reduce_scatter, built(Collective::reduce_scatter, "ring", 4));
  EXPECT_EQ(picture.rounds, 3);
  for (const Picture::Arrow& arrow : picture.arrows) {
    EXPECT_EQ(arrow.chunks, std::vector<int>{wrap(arrow.from - 1 - arrow.round, 4)});
  }
}

// The boxes: every row ends with what its collective demands, each operand counted once.
TEST(Draw, EverybodyEndsWithEverything) {
  for (const AlgorithmRow& row : algorithm_table()) {
    for (int n : {2, 4, 6, 9}) {
      const auto places = testing::places_for(row, n);
      if (!places || !moves_data(row.collective)) continue;
      const Picture picture = lay_out(row.collective, build_all(row, places->where(0, n, 1)), 1);
      ASSERT_EQ(picture.operands.size(), static_cast<size_t>(picture.rounds) + 1);
      const auto& last = picture.operands.back();
      for (int rank = 0; rank < n; ++rank) {
        const GroupRank at{rank, n, 1};
        if (!has_result(row.collective, at)) continue;
        const auto chunks = static_cast<int>(last[rank].size());
        for (int c = has_input_chunks(row.collective) ? n : 0; c < chunks; ++c)
          EXPECT_EQ(last[rank][c], ends_with(row.collective, at, c).value().ranks.count)
              << row.name;
      }
    }
  }
}

TEST(Draw, EveryRowHasAPictureAndAlwaysTheSame) {
  for (const AlgorithmRow& row : algorithm_table()) {
    for (int n : {1, 2, 6, 9}) {
      const auto places = testing::places_for(row, n);
      if (!places) continue;
      const auto all = build_all(row, places->where(0, n, 0));
      const std::string svg = draw_svg(row.collective, all, "a < b & c", 0, places->host);
      EXPECT_EQ(svg, draw_svg(row.collective, all, "a < b & c", 0, places->host));
      EXPECT_EQ(svg.find("nan"), svg.npos) << row.name;
      EXPECT_EQ(count(svg, "a &lt; b &amp; c"), 1u);
      EXPECT_EQ(count(svg, "<svg"), 1u);
      EXPECT_TRUE(svg.ends_with("</svg>\n"));
      // One head per arrow.
      const Picture picture = lay_out(row.collective, all);
      EXPECT_EQ(count(svg, "Z\" fill="), picture.arrows.size()) << row.name;
      EXPECT_EQ(count_rounds(all), picture.rounds) << row.name;
    }
  }
}

struct Word {
  std::string words;
  double left, right, y;
};

double number_after(const std::string& text, const std::string& name, double otherwise) {
  const size_t at = text.find(name + "=\"");
  return at == text.npos ? otherwise : std::stod(text.substr(at + name.size() + 2));
}

// Every text of a picture with its ends, in a font whose letters are 0.6 of their height wide, as
// those of the usual monospaced fonts are.
std::vector<Word> words_of(const std::string& svg) {
  std::vector<Word> all;
  for (size_t at = svg.find("<text "); at != svg.npos; at = svg.find("<text ", at + 1)) {
    const size_t open = svg.find('>', at);
    const std::string tag = svg.substr(at, open - at);
    std::string words = svg.substr(open + 1, svg.find("</text>", open) - open - 1);
    words = std::regex_replace(words, std::regex("&[a-z]+;"), "&");
    const double wide = 0.6 * words.size() * number_after(tag, "font-size", 12);
    const double x = number_after(tag, " x", 0) - (tag.find("middle") != tag.npos ? wide / 2 : 0);
    all.push_back({words, x, x + wide, number_after(tag, " y", 0)});
  }
  return all;
}

TEST(Draw, NoTextIsCut) {
  for (const AlgorithmRow& row : algorithm_table()) {
    for (int n : {1, 2, 4, 17}) {
      const auto places = testing::places_for(row, n);
      if (!places) continue;
      const auto all = build_all(row, places->where(0, n, 0));
      for (const std::string& title : {std::string(row.name), std::string(70, 'W')}) {
        const std::string svg = draw_svg(row.collective, all, title, 0, places->host);
        const double width = number_after(svg, " width", 0),
                     height = number_after(svg, " height", 0);
        const std::vector<Word> words = words_of(svg);
        ASSERT_GE(words.size(), 3u);
        for (const Word& word : words) {
          EXPECT_TRUE(word.left >= 0 && word.right <= width && word.y <= height - 4)
              << row.name << ", " << n << " ranks: \"" << word.words << "\" from " << word.left
              << " to " << word.right << " of " << width << ", at " << word.y << " of " << height;
        }
        const Word* before = nullptr;  // in the legend
        for (const Word& word : words) {
          if (!word.words.ends_with(" there") && !word.words.starts_with("boxes: ")) continue;
          EXPECT_TRUE(!before || before->y < word.y || before->right <= word.left)
              << row.name << ": \"" << before->words << "\" and \"" << word.words << "\" overlap";
          before = &word;
        }
        EXPECT_TRUE(before) << row.name;
      }
    }
  }
}

TEST(Draw, WhatCannotHappenIsRefused) {
  auto refused = [](std::vector<const char*> texts, int root = 0) {
    std::vector<Schedule> all;
    for (const char* text : texts) all.push_back(parse_schedule(text));
    try {
      lay_out(Collective::all_reduce, all, root);
      return std::string("drawn");
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::invalid_argument);
      return error.cause;
    }
  };
  const char* alone = "schedule rank 0 of 1 chunks 1";
  EXPECT_NE(refused({}).find("there are none"), std::string::npos);
  EXPECT_NE(refused({alone}, 1).find("root 1"), std::string::npos);
  EXPECT_NE(refused({alone, alone}).find("says rank 0 of 1"), std::string::npos);
  const char* waiting = "schedule rank 0 of 2 chunks 1\nrecv 1 [0]\nsend 1 [0]";
  EXPECT_NE(refused({waiting, "schedule rank 1 of 2 chunks 1\nrecv 0 [0]\nsend 0 [0]"})
                .find("deadlock: rank 0"),
            std::string::npos);
  EXPECT_NE(refused({waiting, "schedule rank 1 of 2 chunks 1"}).find("has no"), std::string::npos);
  std::vector<Schedule> wild{{0, 2, 1, {}, {}}, {1, 2, 1, {}, {}}};
  wild[0].send(1, {5});
  EXPECT_THROW(lay_out(Collective::all_reduce, wild), Error);
  EXPECT_THROW(count_rounds(wild), Error);
  wild[0].steps.clear();
  wild[0].send(0, {0});
  EXPECT_THROW(draw_ascii(Collective::all_reduce, wild), Error);
  EXPECT_THROW(draw_svg(Collective::all_reduce, {}, ""), Error);
}

}  // namespace
}  // namespace ringwood
