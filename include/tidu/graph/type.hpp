// type.hpp - Shape and Type (dtype and static shape). Types are interned: equal types are one pointer,
// compared in constant time, and live as long as the process (a process sees few distinct types).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tidu/graph/dtype.hpp"
#include "tidu/graph/key.hpp"

namespace tidu {

/// Extents, outermost first. Empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// Product of the extents. Throws Error (type) when an extent is negative or the product exceeds 2^62.
std::int64_t num_elements(const Shape& shape);

/// Dtype and shape of a value; a cheap handle to an interned record.
class Type {
 public:
  /// f64 scalar.
  Type() : Type(DType::f64) {}
  /// A scalar.
  Type(DType dtype) : record_(scalar(dtype)) {}
  /// Throws Error (type) when an extent is negative or the size in bytes would exceed 2^62.
  Type(DType dtype, const Shape& shape) : record_(intern(dtype, shape)) {}

  DType dtype() const { return record_->dtype; }
  const Shape& shape() const { return record_->shape; }
  /// One extent.
  std::int64_t dim(std::size_t axis) const { return record_->shape[axis]; }
  std::size_t rank() const { return record_->shape.size(); }
  /// Number of elements.
  std::int64_t size() const { return record_->size; }
  std::size_t bytes() const { return static_cast<std::size_t>(record_->size) * size_of(record_->dtype); }
  const Key128& key() const { return record_->key; }

  /// The same shape with another dtype.
  Type with_dtype(DType dtype) const { return dtype == this->dtype() ? *this : Type(dtype, shape()); }
  /// The same dtype with another shape.
  Type with_shape(const Shape& shape) const { return Type(dtype(), shape); }

  friend bool operator==(Type a, Type b) { return a.record_ == b.record_; }
  /// Address of the interned record: an identity to hash or compare by within this process.
  const void* identity() const { return record_; }

 private:
  struct Record {
    DType dtype;
    Shape shape;
    std::int64_t size;
    Key128 key;
  };
  static const Record* intern(DType dtype, const Shape& shape);
  static const Record* scalar(DType dtype);
  const Record* record_;
};

/// "f64[3,4]"; a scalar is "f64[]".
std::string to_string(Type type);
/// Writes the text of to_string.
std::ostream& operator<<(std::ostream& out, Type type);
/// Writes the name.
std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace tidu
