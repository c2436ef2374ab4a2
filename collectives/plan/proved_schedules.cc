#include "collectives/plan/proved_schedules.h"

#include <fmt/format.h>

#include "collectives/plan/fingerprint.h"
#include "collectives/verify/verify.h"
#include "transports/base/error.h"
#include "transports/base/hash.h"

namespace ringwood {
namespace {

uint32_t hash_of(Collective collective, const std::vector<Schedule>& schedules, int root) {
  std::string text = fmt::format("{} {}\n", to_string(collective), root);
  for (const Schedule& s : schedules) text += print(s);
  return fnv1a(text);
}

}  // namespace

ProvedSchedules::ProvedSchedules(Collective collective, std::vector<Schedule> schedules, int root)
    : collective_(collective),
      schedules_(std::move(schedules)),
      root_(root),
      hash_(hash_of(collective, schedules_, root)) {}

std::shared_ptr<const ProvedSchedules> ProvedSchedules::create(Collective collective,
                                                               std::vector<Schedule> schedules,
                                                               int root) {
  if (const auto flaw = verify(collective, schedules, root, 1, /*equal_blocks=*/true))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("these schedules are no {}: {}", to_string(collective), *flaw));
  return std::shared_ptr<const ProvedSchedules>(
      new ProvedSchedules(collective, std::move(schedules), root));
}

std::shared_ptr<const ProvedSchedules> ProvedSchedules::parse(Collective collective,
                                                              std::string_view text, int root) {
  return create(collective, parse_schedules(text), root);
}

}  // namespace ringwood
