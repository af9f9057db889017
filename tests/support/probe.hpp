// Functions of tests that inspect graphs and failing calls.
#pragma once

#include <string>
#include <string_view>

#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::test {

/// The message of the Error that `body` throws, or "no error".
template <class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// How many operations of `graph` are of the primitive `name`.
inline std::size_t count(const Graph& graph, std::string_view name) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < graph.num_operations(); ++i)
    found += graph.operation(i).name() == name ? 1U : 0U;
  return found;
}

}  // namespace tidu::test
