// A double of the driver for one test: a copy of its library's file, which is loaded as another
// library, with a state of its own and its own look at the environment.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda/double/control.h"
#include "tests/support/processes.h"
#include "transports/cuda/driver.h"

namespace ringwood::testing {

class FreshDouble {
 public:
  struct Variable {
    const char* name;
    std::string value;
  };

  // `environment` is set while the library is loaded, and is that of before afterwards.
  explicit FreshDouble(std::initializer_list<Variable> environment = {}) {
    std::filesystem::copy_file(CUDA_DOUBLE, copy_.path());
    std::vector<Variable> all(environment);
    std::vector<std::optional<std::string>> before;
    for (const Variable& variable : all) {
      const char* const old = std::getenv(variable.name);
      before.push_back(old ? std::optional<std::string>(old) : std::nullopt);
      ::setenv(variable.name, variable.value.c_str(), 1);
    }
    loaded_ = std::make_unique<Result<const cuda::Driver*>>(cuda::load_from(copy_.path().c_str()));
    if (loaded_->ok()) kept().push_back(**loaded_);
    ::unlink(copy_.path().c_str());  // loaded, it stays; tests that end by a signal leave no file
    for (size_t i = 0; i < all.size(); ++i)
      before[i] ? ::setenv(all[i].name, before[i]->c_str(), 1) : ::unsetenv(all[i].name);
  }
  FreshDouble(const FreshDouble&) = delete;
  FreshDouble& operator=(const FreshDouble&) = delete;

  bool loaded() const { return loaded_->ok(); }
  const cuda::Driver& driver() const { return ***loaded_; }
  // Why it was not loaded.
  const Error& error() const { return loaded_->error(); }

  void fail(const std::string& plan) const {
    symbol<void (*)(const char*)>("fake_cuda_fail")(plan.c_str());
  }
  // While on, no stream begins another task.
  void pause(bool on) const { symbol<void (*)(int)>("fake_cuda_pause")(on); }
  // What is held: "1 context, 2 streams".
  std::string left() const {
    char text[256];
    symbol<void (*)(char*, size_t)>("fake_cuda_left")(text, sizeof text);
    return text;
  }
  // An entry that the product does not use.
  template <class F>
  F symbol(const char* name) const {
    void* const library = ::dlopen(copy_.path().c_str(), RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<F>(::dlsym(library, name));
  }

 private:
  // Tables live as long as the process, as in the product.
  static std::vector<const cuda::Driver*>& kept() {
    static auto* const all = new std::vector<const cuda::Driver*>;
    return *all;
  }
  TemporaryPath copy_;
  std::unique_ptr<Result<const cuda::Driver*>> loaded_;
};

}  // namespace ringwood::testing
