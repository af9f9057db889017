// transform.hpp - whether every way to the derivatives of a random graph gives the same.
#pragma once

#include <string>
#include <string_view>

#include "fuzz/generator.hpp"

namespace tidu::test {

struct TransformOptions {
  int order = 3;            ///< 1 to 3
  bool differences = true;  ///< asked too, of graphs that are not exact
};

struct TransformReport {
  std::string complaints;  ///< the faults of the derivatives; empty when there are none
  int judged = 0;          ///< orders at which numbers were small enough to be compared
};

/// Directions are drawn from `random`.
TransformReport judge(const RandomCase& c, check::Random& random, const TransformOptions& options = {});

/// The fault of the graph that ByteChoices of these bytes make, to order 2, without differences. An exception
/// is a fault.
std::string complaint_of_bytes(std::string_view bytes);

}  // namespace tidu::test
