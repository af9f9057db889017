// strided.hpp - StridedCopy: copies elements from one strided view to another. It implements transposes,
// broadcasts, slices, reversals, pads and packing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidu::cpu_detail {

/// One axis of both views; strides are in elements. A stride of `from` may be 0 or negative.
struct StridedAxis {
  std::int64_t extent;
  std::int64_t to;
  std::int64_t from;
};

/// A copy that is planned once and run many times. Planning drops axes of extent 1, merges neighbouring axes,
/// and chooses the order of the loops.
class StridedCopy {
 public:
  StridedCopy() = default;
  /// `axes` may be in any order. Strides of `to` are positive, and no two elements of `to` coincide.
  StridedCopy(std::vector<StridedAxis> axes, std::size_t element_size, int threads);
  /// Copies; the addresses are those of the elements at index 0 of every axis.
  void run(const std::byte* from, std::byte* to) const;

 private:
  void find_doubled();
  template <class E>
  void run_tiled(const E* from, E* to) const;
  template <class E>
  void run_doubled(const E* from, E* to) const;
  template <class E>
  void run_as(const std::byte* from, std::byte* to) const;
  std::vector<StridedAxis> axes_;  // outermost first
  std::size_t element_size_ = 1;
  int threads_ = 1;
  bool empty_ = true;
  bool tiled_ = false;    // the last two axes are walked in tiles: `to` is contiguous along the last, `from`
                          // along the other
  bool doubled_ = false;  // rows are repeated, and each element of a row occurs twice
};

}  // namespace tidu::cpu_detail
