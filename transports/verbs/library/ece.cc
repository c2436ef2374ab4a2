#include "transports/verbs/library/ece.h"

#include "transports/verbs/library/library.h"

namespace ringwood::verbs {

std::optional<Ece> query_ece(const Library& library, ibv_qp* pair) {
  ibv_ece found{};
  if (!library.newer.query_ece || library.newer.query_ece(pair, &found) != 0 ||
      found.vendor_id == 0)
    return std::nullopt;
  return Ece{found.vendor_id, found.options, found.comp_mask};
}

bool set_ece(const Library& library, ibv_qp* pair, const Ece& wanted) {
  ibv_ece given{wanted.vendor, wanted.options, wanted.mask};
  return library.newer.set_ece && library.newer.set_ece(pair, &given) == 0;
}

}  // namespace ringwood::verbs
