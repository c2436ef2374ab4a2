// The table of knobs: that it is whole, and that every row reads and shows its own field.
#include "transports/base/knobs/knobs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "tests/base/scoped_environment.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

constexpr int kMaxForUsers = 20;

// ---- how many fields a struct has: as many as it can be initialised with -----------------------

struct AnyField {
  template <class T>
  operator T() const;
};
template <class T, size_t... i>
constexpr bool takes(std::index_sequence<i...>) {
  return requires { T{(static_cast<void>(i), AnyField{})...}; };
}
template <class T, size_t n = 1>
constexpr size_t fields_of() {
  if constexpr (takes<T>(std::make_index_sequence<n>()))
    return fields_of<T, n + 1>();
  else
    return n - 1;
}
struct Three {
  int a;
  std::string b;
  PortRange c;
};
static_assert(fields_of<Three>() == 3);

// Which knobs are not at their defaults, and how they would be written.
using Shown = std::vector<std::pair<std::string, std::string>>;

Shown changed(const Options& options) {
  log_set_level(Options().log_level);  // which reading the knob of the log may have set
  Shown shown;
  for (const Knob& knob : knobs()) {
    std::string value = knob.text.show(options);
    if (value != knob.text.show(Options())) shown.emplace_back(knob.name, std::move(value));
  }
  return shown;
}

TEST(Knobs, EveryFieldHasItsRow) {
  // Rows change one field each (below), so as many rows as fields are one for each.
  // Not rows are `verbs` and `cuda`, and `tuner_plugin`, which only a program can give.
  EXPECT_EQ(knobs().size(),
            fields_of<Options>() - 3 + fields_of<VerbsOptions>() + fields_of<CudaOptions>());
}

TEST(Knobs, EveryNameSetsItsFieldAlone) {
  for (const Knob& knob : knobs()) {
    std::vector<const char*> names = {knob.name};
    names.insert(names.end(), knob.aliases.begin(), knob.aliases.end());
    for (const char* name : names) {
      if (!name) continue;
      ScopedEnvironment environment(Environment{{name, knob.example}});
      const Shown shown = changed(Options::from_environment());
      ASSERT_EQ(shown.size(), 1u) << name;
      EXPECT_EQ(shown[0].first, knob.name) << name;
      EXPECT_EQ(setting_of(knob).name, std::string_view(name));
      EXPECT_EQ(setting_of(knob).value, std::string_view(knob.example));
    }
  }
}

TEST(Knobs, AreShownAsTheyWouldBeWritten) {
  Environment examples;
  for (const Knob& knob : knobs()) examples.emplace_back(knob.name, knob.example);
  Shown shown;
  {
    ScopedEnvironment environment(examples);
    shown = changed(Options::from_environment());
  }
  EXPECT_EQ(shown.size(), knobs().size());
  ScopedEnvironment environment(shown);
  EXPECT_EQ(changed(Options::from_environment()), shown);
}

TEST(Knobs, AUserHasFewToKnow) {
  std::set<std::string_view> names;
  int for_users = 0;
  KnobFor before = KnobFor::user;
  for (const Knob& knob : knobs()) {
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    EXPECT_EQ(std::string_view(knob.name).substr(0, 9), "RINGWOOD_");
    EXPECT_FALSE(std::string_view(knob.does).empty()) << knob.name;
    EXPECT_FALSE(std::string_view(knob.why).empty()) << knob.name;
    EXPECT_LE(before, knob.audience) << knob.name << " stands behind those for experts";
    before = knob.audience;
    for_users += knob.audience == KnobFor::user;
  }
  EXPECT_LE(for_users, kMaxForUsers);
  EXPECT_GT(for_users, 0);
}

}  // namespace
}  // namespace ringwood
