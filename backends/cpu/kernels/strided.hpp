// strided.hpp - copying elements from one strided view to another: what transposing, broadcasting, slicing,
// reversing, padding and packing come down to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidu::cpu_detail {

/// One axis of both views; strides in elements. A stride of `from` may be 0 or negative.
struct StridedAxis {
  std::int64_t extent;
  std::int64_t to;
  std::int64_t from;
};

/// A copy that is planned once: axes of extent 1 dropped, neighbours merged, the order of loops chosen.
class StridedCopy {
 public:
  StridedCopy() = default;
  /// `axes` in any order; `to` strides are positive and no two elements of `to` coincide.
  StridedCopy(std::vector<StridedAxis> axes, std::size_t element_size, int threads);
  /// The addresses are those of the elements at index 0 of every axis.
  void run(const std::byte* from, std::byte* to) const;

 private:
  void cut_lines();
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
  bool doubled_ = false;  // rows are repeated, and each of their elements twice
};

}  // namespace tidu::cpu_detail
