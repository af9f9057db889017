// nearest.hpp - suggestions for a name that is unknown: the known names that are nearest to it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidu/graph/primitive_set.hpp"

namespace tidu::detail {

/// At most three of `known`, nearest first, by optimal string alignment distance (insertions, deletions,
/// substitutions, swaps of neighbours); a name that contains the other one is at distance 1. Among equal
/// distances, a longer common beginning comes first. Empty if none is near: for long names, and beyond half
/// of the letters.
std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> known);

/// ` (nearest: sin, sinh)`, to follow the name, or nothing.
std::string nearest_primitives(std::string_view name, const PrimitiveSet& set);
/// The same of a dtype. Names that NumPy, C and C++ give to dtypes are known.
std::string nearest_dtype(std::string_view name);
/// "[bool,i32,...]".
std::string all_dtypes();

}  // namespace tidu::detail
