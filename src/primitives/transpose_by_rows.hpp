// transpose_by_rows.hpp - the transpose of a graph that is linear in its last inputs, for graphs without a
// transpose rule (a while without a bound, a primitive without such a rule): element i of a result is the
// inner product <graph(r, e_i), t>, e_i being the unit vector. The graph runs once for each element of these
// inputs (twice for complex ones), in a scan, so that the memory is that of one run.
#pragma once

#include <string>

#include "tidu/graph/graph.hpp"

namespace tidu::prim {

/// Inputs: the first `num_residuals` of `graph`, then values of the types of its outputs; outputs of the
/// types of its other inputs. By the real inner product Re(conj(a) b). `graph` has no effects.
Graph transposed_by_rows(const Graph& graph, std::size_t num_residuals, const std::string& name);

}  // namespace tidu::prim
