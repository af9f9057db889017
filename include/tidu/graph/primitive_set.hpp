// primitive_set.hpp - a collection of primitives, which graphs, loaders and transforms take as an argument.
// There is no global registry: a project makes a set of its own, beside the standard one or in place of it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tidu/graph/primitive.hpp"
#include "tidu/graph/type.hpp"

namespace tidu {

class Value;
class Emitter;
class Literal;

/// Immutable; copies share.
class PrimitiveSet {
 public:
  /// Emits a value of `type` that is zero everywhere.
  using Zeros = Value (*)(Emitter& emitter, Type type);

  /// Operations of this set that transforms emit themselves. Each may be null in a set that never needs it; a
  /// transform that needs it then throws Error (unknown_primitive).
  struct TransformOps {
    const Primitive* add = nullptr;  ///< sums two values of one type: cotangents meet in it
    /// -x and x - y of one type, both or neither: with them linear_transpose carries the signs of cotangents
    /// along and settles them where they meet.
    const Primitive* neg = nullptr;
    const Primitive* sub = nullptr;  ///< see neg
    Zeros zeros = nullptr;           ///< zeros that a caller asks for
    Zeros ones = nullptr;            ///< the seed of a scalar output
    /// x repeated over a new leading axis of extent `size`.
    Value (*broadcast)(Value x, std::int64_t size) = nullptr;
    /// A matrix of unit vectors, of shape [rows] + type.shape(): row offset + i is one at element i of `type`
    /// (row-major) and zero elsewhere; other rows are zero.
    Value (*basis)(Emitter& emitter, Type type, std::int64_t rows, std::int64_t offset) = nullptr;
    /// From x of shape [rows] + rest: rows offset .. offset + n, as shape + rest, where shape has n elements.
    Value (*leading_block)(Value x, std::int64_t offset, const Shape& shape) = nullptr;
    /// The same rows as rest + shape.
    Value (*trailing_block)(Value x, std::int64_t offset, const Shape& shape) = nullptr;
    /// x in another dtype, linear in x: with it sums of three or more cotangents of 16 bits are held in f32
    /// (TransposeOptions::wide_accumulation); without it they are rounded after each term.
    Value (*convert)(Value x, DType dtype) = nullptr;
    /// That tensor, as an operation without operands: a value that programs compute once.
    Value (*constant)(Emitter& emitter, const Literal& value) = nullptr;
  };
  /// The former name.
  using Vocabulary [[deprecated("use TransformOps")]] = TransformOps;

  /// Throws Error (invalid_argument) when two records share a name or transform_ops.add is not among them.
  PrimitiveSet(std::vector<const Primitive*> primitives, const TransformOps& transform_ops);
  /// The same with these two operations alone.
  PrimitiveSet(std::vector<const Primitive*> primitives, const Primitive* adder, Zeros make_zeros);

  /// The primitive of that name, or null.
  const Primitive* find(std::string_view name) const;
  /// The record of this set that stands for `primitive`: itself, or the one of its name. Throws Error
  /// (unknown_primitive).
  const Primitive& resolve(const Primitive& primitive) const;
  /// Is it this very record?
  bool contains(const Primitive* primitive) const;
  /// In the order in which they were given.
  const std::vector<const Primitive*>& primitives() const { return data_->primitives; }
  const TransformOps& transform_ops() const { return data_->transform_ops; }
  /// The former name.
  [[deprecated("use transform_ops")]] const TransformOps& vocabulary() const { return transform_ops(); }
  const Primitive* add() const { return data_->transform_ops.add; }
  Zeros zeros() const { return data_->transform_ops.zeros; }

  /// This set and further records. A record of a name that exists already is an error.
  PrimitiveSet with(const std::vector<const Primitive*>& more) const;
  /// This set with `replacement` for the record of the same name.
  PrimitiveSet replacing(const Primitive* replacement) const;

  friend bool operator==(const PrimitiveSet& a, const PrimitiveSet& b) { return a.data_ == b.data_; }

 private:
  struct Data {
    std::vector<const Primitive*> primitives;
    std::vector<const Primitive*> by_name;     // sorted by name
    std::vector<const Primitive*> by_address;  // open addressing; a power of two slots
    TransformOps transform_ops;
  };
  std::shared_ptr<const Data> data_;
};

/// The standard set, defined by the module `primitives`. It is the default of GraphBuilder and of the loader,
/// an argument like any other: graphs of another set never use it.
const PrimitiveSet& standard_primitives();

}  // namespace tidu
