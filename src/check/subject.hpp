// subject.hpp - Subject: a graph at a point, which is tested.
#pragma once

#include <cstddef>
#include <vector>

#include "check/numeric.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::check {

/// A graph to be tested, by the inputs in `wrt` at `inputs`.
struct Subject {
  Graph graph;
  std::vector<std::size_t> wrt;
  Tensors inputs;
};

}  // namespace tidu::check
