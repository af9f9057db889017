// dynamic_library.cpp - loading by the system's loader.
#include "cuda/dynamic_library.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "tidu/graph/error.hpp"

namespace tidu::cuda_detail {
namespace {

std::atomic<bool> ending{false};

}  // namespace

bool is_ending() noexcept { return ending; }

std::vector<std::string> versions_of(const std::string& name, int built_with,
                                     std::initializer_list<int> versions) {
  std::vector<std::string> names;
  for (const int version : versions)
    names.insert(version == built_with ? names.begin() : names.end(), name + "." + std::to_string(version));
  names.push_back(name);
  return names;
}

DynamicLibrary::DynamicLibrary(std::string_view what, const std::vector<std::string>& names) : what_(what) {
  std::string failures;
  for (const std::string& name : names) {
    for (const char* const folder : {"", TIDU_CUDA_LIBRARY_DIR "/"}) {
      name_ = std::string(folder) + name;
      handle_ = ::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        // Called before the library's own statics are destroyed, since it is noted after them.
        (void)std::atexit([] { ending = true; });
        return;
      }
      if (failures.empty()) {
        const char* const said = ::dlerror();
        failures = said != nullptr ? said : name;
      }
    }
  }
  throw Error(ErrorKind::execution,
              detail::str("[cuda] expected ", what, " to be installed, got: ", failures));
}

void DynamicLibrary::load_beside(std::string_view beginning) const noexcept {
  const std::filesystem::path folder = std::filesystem::path(name_).parent_path();
  if (folder.empty()) return;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->path().filename().string().compare(0, beginning.size(), beginning) == 0)
      ::dlopen(at->path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

void* DynamicLibrary::symbol(const char* name) const {
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr) {
    throw Error(ErrorKind::execution, detail::str("[cuda] expected ", what_, " to have ", name,
                                                  ", got a library without it (", name_, ")"));
  }
  return found;
}

}  // namespace tidu::cuda_detail
