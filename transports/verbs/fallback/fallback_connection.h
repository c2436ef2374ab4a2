// The fallback connection: the TCP connection beside the queue pairs of a link, in frames. It
// carries negotiation, the closing of paths, and, when no path is left, the data itself.
//
// Bounded: a frame with a longer payload than kMaxPayload, or of an unknown type, closes the
// connection. Non-blocking; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "transports/base/bytes.h"
#include "transports/base/clock.h"
#include "transports/base/owned_fd.h"

namespace ringwood::verbs {

enum class FrameType : uint8_t {
  hello = 1,
  result = 2,
  path_down = 3,
  data = 4,
  credit = 5,
  path_ready = 6,  // and on: path/reopener.h
  path_address = 7,
  path_reply = 8,
  path_refused = 9,
};

struct Frame {
  FrameType type = FrameType::hello;
  uint8_t path = 0;
  uint64_t position = 0;
};

inline constexpr uint32_t kMaxPayload = 64 << 10;

// Precedes a frame's payload of `bytes`.
struct FrameHeader {
  Frame frame;
  uint32_t bytes = 0;
  static constexpr size_t kBytes = 16;
};

void fields(auto& io, FrameHeader& header) {
  io.number(header.frame.type, FrameType::hello, FrameType::path_refused);
  io.number(header.frame.path);
  io.constant(uint16_t{0});
  io.number(header.bytes, 0, kMaxPayload);
  io.number(header.frame.position);
}

class FallbackConnection final {
 public:
  explicit FallbackConnection(OwnedFd fd) : fd_(std::move(fd)) {}
  ~FallbackConnection();
  FallbackConnection(const FallbackConnection&) = delete;
  FallbackConnection& operator=(const FallbackConnection&) = delete;

  int fd() const { return fd_.get(); }
  void queue(const Frame& frame, std::span<const std::byte> payload = {});
  size_t queued() const { return out_.size() - sent_; }
  // Bytes of memory allocated for what is queued; for tests.
  size_t memory() const { return out_.capacity(); }
  // Frees that memory if nothing is queued.
  void trim();
  void flush();
  // Reads what has come and calls `take` for every whole frame, until it returns false.
  using Take = std::function<bool(const Frame&, std::span<const std::byte>)>;
  void receive(const Take& take);
  // Waits for one frame. False: the deadline passed or the connection ended first.
  bool await(Frame& frame, std::vector<std::byte>& payload, Deadline deadline);

  bool closed() const { return closed_; }
  // After closed(): errno, 0 for the end of the stream.
  int failure() const { return failure_; }

 private:
  void close(int error_number);

  OwnedFd fd_;
  std::vector<std::byte> out_, in_;
  size_t sent_ = 0;
  bool closed_ = false;
  int failure_ = 0;
};

}  // namespace ringwood::verbs
