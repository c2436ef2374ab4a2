#include "tools/top/http.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <strings.h>

#include <array>
#include <optional>

#include "transports/base/asio.h"
#include "transports/base/error.h"
#include "transports/bootstrap/handshake.h"

namespace ringwood::tools {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

// The value of a header; nothing: it has none.
std::optional<std::string_view> header(std::string_view request, std::string_view name) {
  while (!request.empty()) {
    const std::string_view line = request.substr(0, request.find('\n'));
    request.remove_prefix(std::min(request.size(), line.size() + 1));
    if (line.size() > name.size() && line[name.size()] == ':' &&
        strncasecmp(line.data(), name.data(), name.size()) == 0)
      return trimmed(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

// "localhost:9464", "127.0.0.1", "[::1]:9464".
bool names_this_host(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host.size() == 9 && strncasecmp(host.data(), "localhost", 9) == 0) return true;
  asio::error_code error;
  const auto address = asio::ip::make_address(std::string(host), error);
  return !error && address.is_loopback();
}

bool bears(std::string_view request, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto said = header(request, "Authorization");
  if (token.empty() || !said || said->size() != kScheme.size() + token.size()) return false;
  return strncasecmp(said->data(), kScheme.data(), kScheme.size()) == 0 &&
         CRYPTO_memcmp(said->data() + kScheme.size(), token.data(), token.size()) == 0;
}

std::string answer(std::string_view status, std::string_view body, bool head,
                   std::string_view more = "") {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n{}"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, more, body.size(), head ? "" : body);
}

}  // namespace

bool is_whole_request(std::string_view text) {
  return text.find("\r\n\r\n") != std::string_view::npos ||
         text.find("\n\n") != std::string_view::npos;
}

std::string http_reply(std::string_view request, const HttpRules& rules) {
  const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
  const bool head = line.starts_with("HEAD ");
  if (!bears(request, rules.token)) {
    if (!rules.own_user)
      return answer("401 Unauthorized",
                    "only this job's user, root, and who bears the token of its key may ask: see "
                    "`ringwood top --token`\n",
                    head, "WWW-Authenticate: Bearer\r\n");
    if (const auto host = header(request, "Host"); host && !names_this_host(*host))
      return answer("421 Misdirected Request", "ask for localhost\n", head);
  }
  if (!head && !line.starts_with("GET "))
    return answer("405 Method Not Allowed", "only GET\n", head);
  const size_t at = line.find(' ') + 1;
  const std::string_view path = line.substr(at, line.find_first_of(" ?", at) - at);
  if (path == "/") return answer("200 OK", "ringwood top: the metrics are at /metrics\n", head);
  if (path != "/metrics") return answer("404 Not Found", "there is only /metrics\n", head);
  const std::string page = rules.metrics();
  if (page.empty()) return answer("503 Service Unavailable", "no sample yet\n", head);
  return answer("200 OK", page, head);
}

std::string token_of_key(const std::string& path) {
  constexpr std::string_view kPurpose = "ringwood top --serve";
  const auto key = key_from_file(path);
  std::array<uint8_t, 32> token{};
  unsigned bytes = token.size();
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
            reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(), token.data(),
            &bytes))
    throw Error(ErrorCode::internal, "OpenSSL cannot compute an HMAC-SHA256");
  return fmt::format("{:02x}", fmt::join(token, ""));
}

}  // namespace ringwood::tools
