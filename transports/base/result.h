// A value, or the Error: the result of set-up code; and how a catch clause makes an Error.
#pragma once

#include <variant>

#include "transports/base/error.h"

namespace ringwood {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error e) : value_(std::move(e)) {}
  bool ok() const { return value_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(value_); }
  T* operator->() { return &std::get<0>(value_); }
  Error& error() { return std::get<1>(value_); }

 private:
  std::variant<T, Error> value_;
};

// In a catch clause: the exception as an Error, with its own text if it is another type.
Error caught_error();

}  // namespace ringwood
