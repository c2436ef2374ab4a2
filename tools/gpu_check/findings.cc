#include "tools/gpu_check/findings.h"

#include "transports/base/error.h"

namespace ringwood::gpu_check {

void Findings::check(const std::string& name, const std::function<std::string()>& look) {
  std::string wrong;
  try {
    wrong = look();
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  ok_ = ok_ && wrong.empty();
  nlohmann::ordered_json found = {{"check", name}, {"ok", wrong.empty()}};
  if (!wrong.empty()) found["why"] = wrong;
  checks_.push_back(std::move(found));
}

void Findings::skip(const std::string& name, const std::string& why) {
  checks_.push_back({{"check", name}, {"ok", nullptr}, {"why", why}});
}

nlohmann::ordered_json Findings::json() const {
  nlohmann::ordered_json all = {{"ok", ok_}};
  all.update(told_);
  all["checks"] = checks_;
  return all;
}

}  // namespace ringwood::gpu_check
