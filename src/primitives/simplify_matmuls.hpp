// simplify_matmuls.hpp - rules for matmuls that the rules of shapes use.
#pragma once

#include "primitives/simplify.hpp"

namespace tidu::prim {

/// The transpose of a dot_general's result as one dot_general with exchanged operands or reordered batch
/// axes; nothing if that is not enough.
Values transposed_product(const SimplifyContext& c, const Operation& made, const Ints& permutation);

/// Are these matrices, transposed or not, of which products are made where they lie? Lists of axes of
/// `shape`.
bool lies_as_matrices(const Shape& shape, const Ints& batch, const Ints& free, const Ints& contracting);

}  // namespace tidu::prim
