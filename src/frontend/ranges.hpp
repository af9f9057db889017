// ranges.hpp - normalized slices, start:stop:step in Python's sense, which slices read and at() replaces.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "frontend/context.hpp"

namespace tidu::frontend_detail {

/// Every `step`-th position of [start, limit), in reverse order if `reversed`. step > 0.
struct Range {
  std::int64_t start, limit, step;
  bool reversed;
  std::int64_t count() const { return limit > start ? (limit - start - 1) / step + 1 : 0; }
};

/// Applies Python's rules for start:stop:step to an axis of `extent`. Throws Error (invalid_argument) for a
/// step of 0.
Range range_of(const Slice& part, std::int64_t extent, std::string_view function, Where where);

/// Ranges of the first axes of an Array.
class Ranges {
 public:
  /// Throws Error (invalid_argument) if there are more parts than axes, or if x has no value.
  Ranges(std::string_view function, const Array& x, std::span<const Slice> parts, Where where);
  std::span<const Range> list() const { return ranges_; }
  /// Static arguments that identify the ranges.
  Ints static_args() const;

 private:
  std::vector<Range> ranges_;
};

/// The part of x.
Value part_of(Value x, std::span<const Range> ranges);

}  // namespace tidu::frontend_detail
