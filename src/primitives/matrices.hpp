// matrices.hpp - functions that the records of linear algebra share: checks of operands, and abbreviations
// for their rules. A matrix is the last two axes of a value; leading axes are a batch, the same in all
// operands.
#pragma once

#include "axes.hpp"
#include "rules.hpp"

namespace tidu::prim {

// --- type rules
/// Operand `i` is floating or complex, with two axes or more.
void require_matrix(const InferContext& c, std::size_t i);
/// The same, and its last two axes are equal.
void require_square(const InferContext& c, std::size_t i);

/// The leading axes, then `rows` and `columns`.
Shape matrix_shape(Type type, std::int64_t rows, std::int64_t columns);
/// The leading axes, then `extent`.
Shape vector_shape(Type type, std::int64_t extent);
inline std::int64_t rows_of(Type type) { return type.dim(type.rank() - 2); }
inline std::int64_t columns_of(Type type) { return type.dim(type.rank() - 1); }

// --- batch rule
/// The same operation, one leading axis more in every operand.
Values batch_matrices(BatchContext& c);

// --- values
enum class As : std::uint8_t { is, swapped, adjoint };
/// x y of matrices, each taken as it is, rows and columns swapped, or conjugated and swapped.
Value matrix_product(Value x, As x_as, Value y, As y_as);
inline Value matrix_product(Value x, Value y) { return matrix_product(x, As::is, y, As::is); }
/// The transposed matrices, and those conjugated.
Value transposed(Value x);
Value adjoint(Value x);

/// Which part of a matrix.
enum class Part : std::uint8_t { lower, strictly_lower, upper, strictly_upper };
/// bool of that shape: is this position in the part? Depends only on the shape.
Value in_part(Emitter& emitter, const Shape& shape, Part part);
/// x there, zero elsewhere.
Value part_of(Value x, Part part);
/// Identity matrices of a type whose last two axes are equal.
Value identity(Emitter& emitter, Type type);
/// The diagonal of square matrices.
Value diagonal(Value x);
/// s [..., k] beside every row, or every column, of matrices of that shape.
Value by_column(Value s, const Shape& shape);
Value by_row(Value s, const Shape& shape);
/// x[..., :rows, :columns], itself where that is all.
Value leading_block(Value x, std::int64_t rows, std::int64_t columns);

}  // namespace tidu::prim
