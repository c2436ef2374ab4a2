// All of Asio that is used here, included in one way only.
//
// Asio 1.22 asks the standard library's macros how to allocate, before it has included any of it. A
// file that includes Asio first gets operator new, any other aligned_alloc, and one linked program
// then frees with the one what the other gave out (found by the address sanitizer).
#pragma once

#include <cstdlib>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
