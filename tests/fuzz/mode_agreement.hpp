// mode_agreement.hpp - one graph at one point, and the ways to its values and derivatives: of first and
// second order, by graph transforms on two executors, and by functions of Arrays in each mode, nested.
#pragma once

#include <string>
#include <vector>

#include "check/numeric.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::test {

/// A closed graph with inexact outputs alone, its inputs, and those of them that are differentiated.
struct ModeCase {
  std::string name;
  Graph graph;
  check::Tensors inputs;
  std::vector<std::size_t> wrt;  ///< positions of inexact inputs
  double rtol = 1e-9;            ///< of first derivatives; that of second ones is larger
};

struct ModeReport {
  std::string complaints;  ///< disagreements and errors that are no refusal; empty when there are none
  std::vector<std::string> refusals;
  std::size_t compared = 0;
};

/// Compares so many ways that are drawn from `random`; with `all`, each there is.
ModeReport compare_modes(const ModeCase& c, check::Random& random, std::size_t draws, bool all);

}  // namespace tidu::test
