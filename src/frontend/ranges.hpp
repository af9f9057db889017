// ranges.hpp - parts of axes as Python writes them, start:stop:step, made plain: what slices read and what
// at() replaces.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "frontend/context.hpp"

namespace tidu::frontend_detail {

/// Every `step`-th position of [start, limit), backward where it is reversed. step > 0.
struct Range {
  std::int64_t start, limit, step;
  bool reversed;
  std::int64_t count() const { return limit > start ? (limit - start - 1) / step + 1 : 0; }
};

/// Python's rules for start:stop:step on an axis of `extent`. Throws Error (invalid_argument) for a step of
/// 0.
Range range_of(const Slice& part, std::int64_t extent, std::string_view function, Where where);

/// Parts of the first axes of an Array.
class Ranges {
 public:
  /// Throws Error (invalid_argument) where there are more of them than axes, or no value.
  Ranges(std::string_view function, const Array& x, std::span<const Slice> parts, Where where);
  std::span<const Range> list() const { return ranges_; }
  /// What tells them apart.
  Ints words() const;

 private:
  std::vector<Range> ranges_;
};

/// That part of x.
Value part_of(Value x, std::span<const Range> ranges);

}  // namespace tidu::frontend_detail
