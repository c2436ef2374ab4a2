// Data center bridging by netlink: the IEEE tables of an interface.
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>

#include "tools/doctor/collect/kernel.h"
#include "tools/doctor/collect/netlink.h"

namespace ringwood::tools::doctor {
namespace {

constexpr int kPriorities = 8;

void read_application(Bytes value, Dcb& dcb) {
  dcb_app app{};
  if (!copy(value, app) || app.selector != IEEE_8021QAZ_APP_SEL_DSCP) return;
  if (app.protocol >= 64 || app.priority >= kPriorities) return;
  dcb.dscp_to_priority[app.protocol] = app.priority;
  dcb.trust = "dscp";  // drivers trust it as soon as there is such a row
}

void read_table(int type, Bytes value, Dcb& dcb) {
  ieee_pfc pfc{};
  ieee_ets ets{};
  if (type == DCB_ATTR_IEEE_PFC && copy(value, pfc)) {
    for (int p = 0; p < kPriorities; ++p) dcb.pfc.push_back((pfc.pfc_en >> p) & 1);
  } else if (type == DCB_ATTR_IEEE_ETS && copy(value, ets)) {
    dcb.traffic_classes.assign(std::begin(ets.prio_tc), std::end(ets.prio_tc));
  } else if (type == DCB_ATTR_IEEE_APP_TABLE) {
    dcb.applications_read = true;
    each_attribute(value, [&](int row, Bytes app) {
      if (row == DCB_ATTR_IEEE_APP) read_application(app, dcb);
    });
  }
}

std::string request_for(const std::string& interface) {
  struct {
    nlmsghdr head;
    dcbmsg body;
  } fixed{};
  const size_t name = NLA_HDRLEN + interface.size() + 1;
  fixed.head.nlmsg_type = RTM_GETDCB;
  fixed.head.nlmsg_flags = NLM_F_REQUEST;
  fixed.head.nlmsg_len = static_cast<uint32_t>(sizeof fixed + NLA_ALIGN(name));
  fixed.body.cmd = DCB_CMD_IEEE_GET;
  const nlattr head{static_cast<uint16_t>(name), DCB_ATTR_IFNAME};
  std::string message(reinterpret_cast<const char*>(&fixed), sizeof fixed);
  message.append(reinterpret_cast<const char*>(&head), sizeof head);
  message.append(interface).resize(fixed.head.nlmsg_len, '\0');
  return message;
}

}  // namespace

std::optional<Dcb> ask_dcb(const std::string& interface, std::string& why) {
  const auto answers = ask_netlink(request_for(interface), why);
  if (!answers) return std::nullopt;
  Dcb dcb;
  for (const std::string& answer : *answers) {
    if (answer.size() < sizeof(dcbmsg)) continue;
    each_attribute(Bytes(answer).substr(sizeof(dcbmsg)), [&](int type, Bytes value) {
      if (type != DCB_ATTR_IEEE) return;
      each_attribute(value, [&](int table, Bytes rows) { read_table(table, rows, dcb); });
    });
  }
  if (dcb.pfc.empty()) {
    why = "the driver tells no PFC table";
    return std::nullopt;
  }
  return dcb;
}

}  // namespace ringwood::tools::doctor
