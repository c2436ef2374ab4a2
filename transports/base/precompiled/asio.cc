// The functions of Asio, which is used without Boost and without a library of its own.
#include "transports/base/asio.h"

#include <asio/impl/src.hpp>
