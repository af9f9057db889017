// windows.hpp - functions for sliding windows: the extents of their results, with checked arithmetic, since
// attributes may come from an untrusted dump.
#pragma once

#include <string_view>

#include "tidu/graph/infer.hpp"

namespace tidu::prim {

/// One entry for each of `count` axes, each from 1 to 2^40.
void require_counts(const InferContext& c, std::string_view what, const Ints& values, std::size_t count);
/// [low, high] for each of `count` axes, each within 2^60.
void require_padding(const InferContext& c, const IntLists& padding, std::size_t count);

/// Extent with dilation - 1 positions between elements; 0 for an extent of 0.
std::int64_t dilated(std::int64_t extent, std::int64_t dilation);
std::int64_t checked_dilated(const InferContext& c, std::int64_t extent, std::int64_t dilation);
/// How often a window of `window` fits into `extent` in steps of `stride`.
std::int64_t windows_in(std::int64_t extent, std::int64_t window, std::int64_t stride);

/// [0, 0] for each axis.
IntLists no_padding(std::size_t count);

}  // namespace tidu::prim
