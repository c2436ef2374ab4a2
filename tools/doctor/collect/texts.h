// What the tools of a host print, as values: ethtool, mlnx_qos, dcb, lldptool, lspci, ip.
//
// For trees of other machines (tree.h); on this machine the kernel is asked (kernel.h). Pure
// functions of untrusted texts: what is not understood is left out, nothing throws.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/snapshot.h"

namespace ringwood::tools::doctor {

Counters parse_ethtool_statistics(const std::string& text);         // ethtool -S
std::optional<Pause> parse_ethtool_pause(const std::string& text);  // ethtool -a
std::string parse_ethtool_fec(const std::string& text);             // ethtool --show-fec: "RS"
// "firmware-version: 28.39.1002": the text after a name and a colon; "" if it is not there.
std::string parse_field(const std::string& text, const std::string& name);

// Each fills what its text tells; false if it told nothing.
bool parse_mlnx_qos(const std::string& text, Dcb& dcb);      // mlnx_qos -i eth0
bool parse_dcb_pfc(const std::string& text, Dcb& dcb);       // dcb pfc show dev eth0
bool parse_dcb_ets(const std::string& text, Dcb& dcb);       // dcb ets show dev eth0
bool parse_dcb_app(const std::string& text, Dcb& dcb);       // dcb app show dev eth0, also with -N
bool parse_lldptool_pfc(const std::string& text, Dcb& dcb);  // lldptool -t -i eth0 -V PFC
bool parse_lldptool_app(const std::string& text, Dcb& dcb);  // lldptool -t -i eth0 -V APP

// What lspci -vvv knows of each device, by its address with the domain ("0000:86:00.0").
struct LspciDevice {
  std::optional<double> speed, max_speed;
  std::optional<int> width, max_width, max_read_request;
  std::optional<int> acs_control;
  std::optional<bool> relaxed_ordering, ats;
  bool capabilities_read = true;  // false: it was not run as root
};
std::map<std::string, LspciDevice> parse_lspci(const std::string& text);

// ip -o addr: the addresses with their prefix length of each interface.
std::map<std::string, std::vector<std::string>> parse_ip_addresses(const std::string& text);

// ip rule: those beyond the three that the kernel itself has.
std::vector<std::string> parse_policy_rules(const std::string& text);

// Rules of nft list ruleset, iptables-save or iptables -S that drop or reject packets which RoCE
// v2 (UDP, port 4791) may be.
std::vector<std::string> parse_firewall(const std::string& text);

// The bits of the ACS control register that "SrcValid+ TransBlk- ..." stands for.
int parse_acs_bits(const std::string& text);

}  // namespace ringwood::tools::doctor
