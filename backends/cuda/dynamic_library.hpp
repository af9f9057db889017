// dynamic_library.hpp - libraries of the toolkit that are loaded when they are first needed: a program that
// links tidu::cuda starts where none of them is, and pays for none that it does not use.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tidu::cuda_detail {

/// Names of a library, `name` with each version and last without one: the version that tidu was built with
/// first, as that is what the machine's driver is likely to take, then the others in their order.
std::vector<std::string> versions_of(const std::string& name, int built_with,
                                     std::initializer_list<int> versions);

/// Has the process begun to end? Handles of libraries that were loaded here are left alone then, as what the
/// libraries themselves keep may be gone.
bool is_ending() noexcept;

/// A shared library, kept for as long as the process lives.
class DynamicLibrary {
 public:
  /// The first of `names` that can be loaded: each as it is, and in the toolkit's folder of when tidu was
  /// built. `what` is for messages. Throws Error (execution) when none can be.
  DynamicLibrary(std::string_view what, const std::vector<std::string>& names);

  /// The function of that name, which has the type F. Throws Error (execution) when there is none.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(symbol(name));
  }
  /// Loads the libraries of its folder that begin so, which it is going to ask the system for by name alone;
  /// nothing where the system found it.
  void load_beside(std::string_view beginning) const noexcept;
  /// The path or name by which it was loaded.
  const std::string& name() const { return name_; }

 private:
  void* symbol(const char* name) const;
  std::string what_, name_;
  void* handle_ = nullptr;
};

}  // namespace tidu::cuda_detail
