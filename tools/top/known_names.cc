#include "tools/top/known_names.h"

#include <unistd.h>

#include <utility>

namespace ringwood::tools {

std::vector<StatusName> KnownNames::read() {
  std::vector<StatusName> names;
  std::set<std::string> present;
  for (const StatusName& name : status_names()) {
    if (geteuid() != 0 && name.user != geteuid()) continue;
    const std::string text = to_string(name);
    if (!genuine_.contains(text) && !connect_status(name, Deadline::after(Duration::zero())))
      continue;
    present.insert(text);
    names.push_back(name);
  }
  genuine_ = std::move(present);
  return names;
}

}  // namespace ringwood::tools
