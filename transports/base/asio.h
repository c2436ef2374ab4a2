// The one way in which Asio is included here.
//
// Asio 1.22 asks the standard library's macros how to allocate before it has included any of its
// headers. A file that includes Asio first gets operator new, any other aligned_alloc, and one
// linked program then frees with one what the other allocated (found by the address sanitizer).
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
