// Explains an error completion: what it usually means on a fabric, and what to check. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>

namespace ringwood::verbs {

struct Completion {
  int status = 0;         // ibv_wc_status
  const char* name = "";  // as the library calls it
  uint32_t vendor_error = 0;
  bool proven = false;  // this path has carried something before
  int timeout = 0, retries = 0;
};

// "transport retry counter exceeded (12, vendor 129): no acknowledgement for 34 s: ..."
std::string explain(const Completion& completion);

// For a failed ibv_modify_qp: errno and what it usually means.
std::string explain_connect(int error_number);

}  // namespace ringwood::verbs
