// forward_slice.hpp - ForwardSlice: rematerialization in backward: the operations of an augmented graph that
// compute residuals which were not saved, from values that were.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tidu/graph/graph.hpp"

namespace tidu::eager::detail {

/// Is a value on the tape, and in which role?
enum class Saved : std::uint8_t {
  no,
  as_input,  ///< an input of the graph
  as_result  ///< computed by the graph's operations
};

/// The operations that compute some values from saved ones. Linear in the size of the graph.
class ForwardSlice {
 public:
  /// `saved` is indexed by value of the graph. The graph must outlive the slice.
  ForwardSlice(const Graph& augmented, std::vector<Saved> saved)
      : graph_(augmented), saved_(std::move(saved)) {}

  /// Finds the operations for these values, which are not saved. Throws Error (invalid_argument) if an impure
  /// operation is among them.
  void compute(std::span<const ValueId> values);

  /// Does the slice contain operation `i`?
  bool runs(std::uint32_t i) const { return !in_slice_.empty() && in_slice_[i] != 0; }
  /// The saved values that the slice reads, in ascending order.
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
