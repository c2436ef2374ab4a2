#include "transports/verbs/library/capabilities.h"

#include <fmt/format.h>

#include <cerrno>

#include "transports/base/error.h"

namespace ringwood::verbs {
namespace {

// Not ibv_query_device_ex(): it needs a symbol that old libraries lack.
std::string on_demand(ibv_context* context) {
  const verbs_context* const extended = verbs_get_ctx_op(context, query_device_ex);
  if (!extended) return "unknown";
  ibv_device_attr_ex attributes{};
  if (const int error = extended->query_device_ex(context, nullptr, &attributes, sizeof attributes))
    return system_message("ibv_query_device_ex", error);
  const ibv_odp_caps& odp = attributes.odp_caps;
  const uint32_t here = odp.per_transport_caps.rc_odp_caps;
  const bool all =
      (odp.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0 && (here & IBV_ODP_SUPPORT_WRITE) != 0;
  return all ? "yes" : (odp.general_caps & IBV_ODP_SUPPORT) != 0 ? "not of all memory" : "no";
}

// No descriptor is -1: a kernel and device that know the call reject that before all else.
std::string dmabuf(const Library& library, ibv_pd* domain) {
  if (!library.newer.reg_dmabuf_mr) return "rdma-core is older than 34";
  errno = 0;
  if (ibv_mr* region = library.newer.reg_dmabuf_mr(domain, 0, 4096, 0, -1, 0))
    library.dereg_mr(region);
  return errno == EBADF ? "yes" : system_message("no", errno);
}

}  // namespace

std::string capabilities(const Library& library, ibv_context* context, ibv_pd* domain) {
  return fmt::format("on-demand paging: {}; dmabuf: {}", on_demand(context),
                     dmabuf(library, domain));
}

}  // namespace ringwood::verbs
