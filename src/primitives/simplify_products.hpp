// simplify_products.hpp - what the rules of shapes say of products.
#pragma once

#include "primitives/simplify.hpp"

namespace tidu::prim {

/// The transpose of what dot_general gives, as one dot_general with its operands in the other order or its
/// batch axes in another; nothing where that is not enough.
Values transposed_product(const SimplifyContext& c, const Operation& made, const Ints& permutation);

/// Are these matrices, transposed or not, of which products are made where they lie? Lists of axes of
/// `shape`.
bool lies_as_matrices(const Shape& shape, const Ints& batch, const Ints& free, const Ints& contracting);

}  // namespace tidu::prim
