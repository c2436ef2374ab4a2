// Routing rules (ip rule) by netlink.
#include <fmt/format.h>
#include <linux/fib_rules.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "tools/doctor/collect/kernel.h"
#include "tools/doctor/collect/netlink.h"

namespace ringwood::tools::doctor {

std::optional<std::vector<std::string>> ask_policy_rules(std::string& why) {
  struct {
    nlmsghdr head;
    fib_rule_hdr body;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = RTM_GETRULE;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.family = AF_INET;
  const auto answers =
      ask_netlink(std::string(reinterpret_cast<const char*>(&request), sizeof request), why);
  if (!answers) return std::nullopt;
  std::vector<std::string> rules;
  for (const std::string& answer : *answers) {
    fib_rule_hdr rule{};
    if (!copy(answer, rule)) continue;
    uint32_t priority = 0, table = rule.table;
    each_attribute(Bytes(answer).substr(sizeof rule), [&](int type, Bytes value) {
      if (type == FRA_PRIORITY) copy(value, priority);
      if (type == FRA_TABLE) copy(value, table);
    });
    const bool own = (priority == 0 && table == RT_TABLE_LOCAL) ||
                     (priority == 32766 && table == RT_TABLE_MAIN) ||
                     (priority == 32767 && table == RT_TABLE_DEFAULT);
    if (!own) rules.push_back(fmt::format("{}: lookup {}", priority, table));
  }
  return rules;
}

}  // namespace ringwood::tools::doctor
