// moved_parts.hpp - access maps for copy elision. The result of transposes, slices and concatenations is
// described as a list of boxes; each box is a strided view of another value (its root).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/products/product_places.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::cpu_detail {

/// One axis of a box, and its stride in the root.
struct MovedAxis {
  std::int64_t begin = 0, extent = 0;  ///< range in the result
  std::int64_t stride = 0;             ///< in the root, in elements
};
struct MovedPart {
  ValueId from = 0;         ///< the root
  std::int64_t offset = 0;  ///< of the box's first element in the root
  std::vector<MovedAxis> axes;
};
using MovedParts = std::vector<MovedPart>;

/// Maximum number of parts in one copy.
inline constexpr std::size_t max_parts = 16;

/// Is the operation a transpose, slice or concatenation with more than one element and a supported rank?
bool makes_parts(const Graph& graph, std::uint32_t operation);

/// Lengths of contiguous runs in source and destination, in bytes, capped at a limit.
struct MovedLines {
  /// The runs of the parts that form a value of `type`.
  static MovedLines of(const MovedParts& parts, Type type);
  /// Do the runs have a minimum length, and are they at least as long as those of `others`, along the last
  /// axis or merged?
  bool are_as_long_as(const MovedLines& others) const;

  std::size_t of_last = 0;  ///< along the last axis
  std::size_t merged = 0;   ///< along the last axis and those before it that continue it
};

/// Values that are not materialized, with their access maps. Refers to the program.
class MovedValues {
 public:
  explicit MovedValues(const Program& program) : program_(program), graph_(program.graph()) {}

  void add(ValueId id, MovedParts parts) { made_of_.emplace(id, std::move(parts)); }
  void remove(ValueId id) { made_of_.erase(id); }
  void clear() { made_of_.clear(); }
  bool contains(ValueId id) const { return made_of_.count(id) != 0; }
  const MovedParts& at(ValueId id) const { return made_of_.at(id); }

  /// The access map of the result of such an operation, over materialized roots; none if it has too many
  /// parts.
  std::optional<MovedParts> result_of(std::uint32_t operation) const;
  /// The root and the strided view that hold the elements of a value; none unless the value is one part with
  /// the same axes.
  std::optional<std::pair<ValueId, StridedElements>> places_of(ValueId id) const;

 private:
  MovedParts parts_of(ValueId id) const;

  const Program& program_;
  const Graph& graph_;
  std::unordered_map<ValueId, MovedParts> made_of_;
};

/// Plans the copy of the parts to a value of `type`. Sets `operands` to the roots that the copy reads.
Plan plan_parts(const MovedParts& parts, Type type, int threads, std::vector<ValueId>& operands);

}  // namespace tidu::cpu_detail
