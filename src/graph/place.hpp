// place.hpp - source locations of the user, as graphs keep them and messages show them.
#pragma once

#include <string>
#include <string_view>

#include "tidu/graph/error.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::detail {

/// "file.cpp:12", without the folders.
inline std::string short_place(Where where) {
  const std::string_view path(where.file);
  const std::size_t slash = path.find_last_of("/\\");
  return str(slash == std::string_view::npos ? path : path.substr(slash + 1), ':', where.line);
}

/// "\n  at file.cpp:12", or nothing if the location is unknown.
inline std::string at_place(Where where) {
  return where.file == nullptr ? std::string() : str("\n  at ", printable(short_place(where)));
}

}  // namespace tidu::detail
