// Numbers on the command line, alike in every command: decimal digits only, so that neither 0x4 nor
// 010 nor nan is taken for one, and a refusal that says what is wrong with what was typed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace CLI {
class Validator;
}

namespace ringwood::tools {

// "12"; a sign only before a negative one. Null: another text, or more than 64 bits.
std::optional<int64_t> parse_whole(std::string_view text);

// "12.5", "1e-3"; neither infinite nor undefined.
std::optional<double> parse_decimal(std::string_view text);

// For add_option()->check(): "--ranks: two is not a whole number from 1 to 1024".
CLI::Validator whole(int64_t least, int64_t most);
// "0.5", "1e-3": "--tolerance: nan is not a number from 0 to 0.999".
CLI::Validator decimal(double least, double most);

// "64M" -> 67108864, "1.5K" -> 1536; K, M, G and T are powers of 1024. Throws
// Error(invalid_argument), which names the option.
size_t parse_bytes(const std::string& option, const std::string& text);

}  // namespace ringwood::tools
