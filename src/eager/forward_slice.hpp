// forward_slice.hpp - which operations of an augmented graph run again in backward: those that compute
// residuals which nobody saved, from values that were saved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::eager::detail {

/// Is a value on the tape, and since when?
enum class Saved : std::uint8_t {
  no,
  as_input,  ///< it was there before the graph ran
  as_result  ///< the graph's operations computed it
};

/// The operations that compute some values from saved ones. Linear in the size of the graph.
class ForwardSlice {
 public:
  /// `saved`: by value of the graph, which outlives the slice.
  ForwardSlice(const Graph& augmented, std::vector<Saved> saved)
      : graph_(augmented), saved_(std::move(saved)) {}

  /// Finds what computes these values, which are not saved. Throws Error (invalid_argument) where that takes
  /// an impure operation.
  void compute(std::span<const ValueId> values);

  /// Does it run operation `i`?
  bool runs(std::uint32_t i) const { return !in_slice_.empty() && in_slice_[i] != 0; }
  /// The saved values that it starts from, in ascending order.
  const std::vector<ValueId>& reads() const { return reads_; }

 private:
  bool is_saved(ValueId id) const { return saved_[id] != Saved::no; }
  void slice(std::span<const ValueId> values);
  bool compute_compared();
  std::vector<ValueId> compared_with_saved() const;
  std::vector<char> read_by(std::vector<ValueId> stack) const;

  const Graph& graph_;
  std::vector<Saved> saved_;
  std::vector<char> in_slice_;  // by operation
  std::vector<ValueId> reads_;
};

}  // namespace tidu::eager::detail
