// What most files include of the standard library, and fmt: parsed once per library instead of once
// per file, which saves a third of the time. Nothing belongs here that makes code in every file (as
// CLI11 does) or that few include. Files still include what they use: clang-tidy, -Db_pch=false and
// whoever includes our headers have nothing else.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
