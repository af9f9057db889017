// packs.hpp - what a loop reads and writes element after element, taken several at once by accesses of up to
// sixteen bytes, and read ahead of what is computed of it: loads that stand behind a branch, such as those in
// functions for rare arguments, are not moved before it by a compiler.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "cuda/kernels/body.hpp"

namespace tidu::cuda_detail {

/// Operands and results in the order of a loop. In text, operand k is `pk` in memory and `xk` as packs;
/// result k is `qk` and `yk`. The loop's function `element` takes an index, elements of these operands, and
/// of these results by reference.
struct Packs {
  struct Entry {
    std::uint32_t which;
    DType dtype;
  };
  std::vector<Entry> reads, writes;
  std::int64_t width = 1;  ///< elements of an access
  std::int64_t ahead = 1;  ///< accesses of each operand before what is computed of them

  /// Operands that were read in packs, and results.
  Packs(const Body& body, const std::vector<bool>& packed, const std::vector<std::uint32_t>& results);
  /// Takes what another reads and writes too.
  void merge(const Packs& other);
  /// As many elements at once as sixteen bytes hold of the largest, if they divide the lengths.
  void widen(std::initializer_list<std::int64_t> lengths);
  /// At most so many accesses ahead: registers have to hold what they read, and the function's text stands
  /// there for every element.
  void look_ahead(std::int64_t most, const std::string& text);
  std::int64_t bytes_read() const;  ///< by one access of each operand

  /// "const auto element = [&](const index_t r, const f32 x0, f32& y1) { … };"
  std::string function(const std::string& index, const std::string& text) const;
  /// "const bool aligned = …;"
  std::string alignment() const;
  /// "pack<f32, 4> x0[2];": packs of every operand that is read.
  std::string packs(std::int64_t count) const;
  /// Reads pack j of every operand at that place, of its first element.
  std::string loads(const std::string& place) const;
  /// Computes the elements of pack j, of which the first has that index and place; keeps results where the
  /// condition holds, if there is one.
  std::string computes(const std::string& index, const std::string& place,
                       const std::string& condition) const;
  /// A loop over indices from `first` to `last`, `step` apart for each access, that does all of it; `place`
  /// says where the element of index `c` is.
  std::string loop(const std::string& first, const std::string& last, const std::string& step,
                   const std::string& place, const std::string& condition) const;
};

}  // namespace tidu::cuda_detail
