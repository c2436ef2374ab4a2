// The wire formats by name; wire.h has what they are. Pure.
#pragma once

#include <cstdint>

namespace ringwood {

enum class WireFormat : uint8_t { exact, bf16, int8 };
const char* to_string(WireFormat format);  // "float32", "bf16", "int8"

}  // namespace ringwood
