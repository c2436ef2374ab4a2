// The few words of HTTP that Prometheus needs: a request, and what is answered. Pure.
//
// Whoever is not a process of this user or root on this host must bear the token, which only those
// who hold the job's key can compute. Who is known by the kernel alone must have asked for this
// host by its own name: otherwise a web page could read the metrics by way of the user's browser
// (DNS rebinding).
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ringwood::tools {

// The request has come to its end, by what has come of it.
bool is_whole_request(std::string_view text);

struct HttpRules {
  bool own_user = false;  // the kernel says so
  std::string token;      // "": nobody else may ask
  // The page; "": there is no sample yet.
  std::function<std::string()> metrics;
};
std::string http_reply(std::string_view request, const HttpRules& rules);

// Of the key in this file (RINGWOOD_KEY_FILE): 64 hexadecimal digits, from which nobody can compute
// the key. Throws Error, as key_from_file().
std::string token_of_key(const std::string& path);

}  // namespace ringwood::tools
