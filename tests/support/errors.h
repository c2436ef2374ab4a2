// What an action throws, and what is in its text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "transports/base/error.h"

namespace ringwood::testing {

template <class F>
Error error_of(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {};
}

// For EXPECT_PRED2: a failure shows both texts.
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace ringwood::testing
