// The content of a file_store's file: a header, and the records after it (store_file.cc).
//
//   header  magic 8 | epoch 8           the epoch changes whenever the log is emptied
//   record  checksum 4 | key bytes 4 | value bytes 4 (all ones: removed) | key | value
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transports/base/bytes.h"

namespace ringwood {

struct LogHeader {
  uint64_t magic = kMagic, epoch = 0;
  static constexpr uint64_t kMagic = 0x31305f676f4c5752;  // "RWLog_01"
  static constexpr size_t kBytes = 16;
};

struct LogRecord {
  std::string_view key;
  std::optional<std::string_view> value;  // none: removed
};

void fields(auto& io, LogHeader& header) {
  io.number(header.magic);
  io.number(header.epoch);
}

std::string encode_record(const LogRecord& record);
// Returns the number of bytes of the record at the beginning of `log`, into which `record` points;
// 0: there is none, it is not whole, or it is damaged.
size_t decode_record(std::string_view log, LogRecord& record);

}  // namespace ringwood
