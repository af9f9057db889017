// primitive_set.hpp - a collection of primitives, which graphs, loaders and transforms take as an argument.
// There is no global registry: a project makes a set of its own, beside the standard one or in place of it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tidu/graph/primitive.hpp"

namespace tidu {

class Value;
class Emitter;

/// Immutable; copies share.
class PrimitiveSet {
 public:
  /// Emits a value of `type` that is zero everywhere.
  using Zeros = Value (*)(Emitter& emitter, Type type);

  /// `add` sums two values of one type (cotangents meet in it); `zeros` makes the zeros that a caller asks to
  /// see. Both may be null in a set that is never differentiated. Throws Error (invalid_argument) when two
  /// records share a name.
  PrimitiveSet(std::vector<const Primitive*> primitives, const Primitive* add, Zeros zeros);

  /// The primitive of that name, or null.
  const Primitive* find(std::string_view name) const;
  /// The record of this set that stands for `primitive`: itself, or the one of its name. Throws Error
  /// (unknown_primitive).
  const Primitive& resolve(const Primitive& primitive) const;
  bool contains(const Primitive* primitive) const;
  /// In the order in which they were given.
  const std::vector<const Primitive*>& primitives() const { return data_->primitives; }
  const Primitive* add() const { return data_->add; }
  Zeros zeros() const { return data_->zeros; }

  /// This set and further records (a record of a name that is there already is an error).
  PrimitiveSet with(const std::vector<const Primitive*>& more) const;
  /// This set with `replacement` in the place of the record of the same name.
  PrimitiveSet replacing(const Primitive* replacement) const;

  friend bool operator==(const PrimitiveSet& a, const PrimitiveSet& b) { return a.data_ == b.data_; }

 private:
  struct Data {
    std::vector<const Primitive*> primitives;
    std::vector<const Primitive*> by_name;     // sorted by name
    std::vector<const Primitive*> by_address;  // open addressing; a power of two slots
    const Primitive* add;
    Zeros zeros;
  };
  std::shared_ptr<const Data> data_;
};

/// The standard set (defined in the room of the standard primitives). It is the default of GraphBuilder and
/// of the loader, an argument like any other: graphs of another set never touch it.
const PrimitiveSet& standard_primitives();

}  // namespace tidu
