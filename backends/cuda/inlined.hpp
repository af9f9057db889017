// inlined.hpp - which operations are written into every kernel that reads them, rather than to memory.
#pragma once

#include <cstdint>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cuda_detail {

/// Does it only move elements, or make constants, so that it costs next to nothing where it is read?
bool moves_cheaply(const Operation& operation);

/// How often broadcast_in_dim repeats each element in a row, if it only does that; else 0.
std::int64_t repeats(const Op& op, Type x, Type result);

}  // namespace tidu::cuda_detail
