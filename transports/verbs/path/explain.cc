#include "transports/verbs/path/explain.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cmath>
#include <string>

#include "transports/base/error.h"

namespace ringwood::verbs {
namespace {

std::string no_acknowledgement(const Completion& c) {
  const double seconds = 4.096e-6 * std::exp2(c.timeout) * (c.retries + 1);
  const char* look =
      c.proven ? "the link or the peer's host went away, or the fabric drops: look at the port's "
                 "state, at local_ack_timeout_err, and at flow control (PFC)"
               : "this path has never worked: compare both GIDs, the subnets and routes between "
                 "them, VLAN and MTU of the switches, and let UDP port 4791 through";
  return fmt::format("nothing was acknowledged for about {:.1f} s; {}", seconds, look);
}

std::string cause(const Completion& c) {
  switch (c.status) {
    case IBV_WC_RETRY_EXC_ERR: return no_acknowledgement(c);
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive posted: it is stalled, or our credits are wrong";
    case IBV_WC_LOC_PROT_ERR:
      return "the device may not read the memory: look at IOMMU (iommu=pt) and ACS";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device refused the address: its memory is not registered any more, a "
             "defect of this library";
    case IBV_WC_LOC_QP_OP_ERR:
      return "the local device or port went away: look at the port's events";
    case IBV_WC_WR_FLUSH_ERR: return "the queue pair had failed before: see the earlier line";
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_FATAL_ERR: return "device or firmware: look at the kernel's log on both hosts";
    default: return "look at the kernel's log on both hosts";
  }
}

}  // namespace

std::string explain(const Completion& c) {
  return fmt::format("{} ({}, vendor {}): {}", c.name, c.status, c.vendor_error, cause(c));
}

std::string explain_connect(int error_number) {
  std::string what = system_message("ibv_modify_qp", error_number);
  switch (error_number) {
    case EINVAL: return what + ": the GID index is empty or of another network";
    case ETIMEDOUT:
      return what +
             ": the peer's address is not answered for on this rail: are the rails cross "
             "connected, is its subnet right?";
    case ENETUNREACH:
    case EHOSTUNREACH: return what + ": no route to the peer's GID from this rail's interface";
    case ENODEV:
    case ENODATA: return what + ": the GID's interface is not in this network namespace";
    case ENOMEM: return what + ": the device has no more queue pairs, or the memlock limit is low";
    default: return what;
  }
}

}  // namespace ringwood::verbs
