// concat_map.hpp - ConcatMap: the access maps of a value that is put together from boxes of other values,
// such as the result of a concatenation of slices. Copy elision composes transposes, slices and
// concatenations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu/access_map.hpp"
#include "cpu/kernel.hpp"
#include "tidu/cpu/program.hpp"

namespace tidu::cpu_detail {

/// A box of the value: its first index along each axis, and the map of its elements, without padding or
/// rolls.
struct ConcatPiece {
  AccessMap map;
  std::vector<std::int64_t> begin;  ///< by axis
};
using ConcatMap = std::vector<ConcatPiece>;

/// Maximum number of pieces in one copy.
inline constexpr std::size_t max_pieces = 16;

/// Is the operation a transpose, slice or concatenation with more than one element and a supported rank?
bool has_concat_map(const Graph& graph, std::uint32_t operation);

/// Lengths of contiguous runs in source and destination, in bytes, capped at a limit.
struct RunLengths {
  /// The runs of the pieces that form a value of `type`.
  static RunLengths of(const ConcatMap& pieces, Type type);
  /// Do the runs have a minimum length, and are they at least as long as those of `others`, along the last
  /// axis or merged?
  bool are_as_long_as(const RunLengths& others) const;

  std::size_t of_last = 0;  ///< along the last axis
  std::size_t merged = 0;   ///< along the last axis and those before it that continue it
};

/// Values that are not materialized, with their maps. Refers to the program.
class ElidedValues {
 public:
  explicit ElidedValues(const Program& program) : program_(program), graph_(program.graph()) {}

  void add(ValueId id, ConcatMap pieces) { maps_.emplace(id, std::move(pieces)); }
  void remove(ValueId id) { maps_.erase(id); }
  void clear() { maps_.clear(); }
  bool contains(ValueId id) const { return maps_.count(id) != 0; }
  const ConcatMap& at(ValueId id) const { return maps_.at(id); }

  /// The map of the result of such an operation, over materialized roots; nothing if it has too many pieces.
  std::optional<ConcatMap> result_of(std::uint32_t operation) const;
  /// The strided view that holds the elements of a value, with the value's axes; nothing unless the value is
  /// one piece.
  std::optional<AccessMap> view_of(ValueId id) const;

 private:
  ConcatMap map_of(ValueId id) const;

  const Program& program_;
  const Graph& graph_;
  std::unordered_map<ValueId, ConcatMap> maps_;
};

/// Plans the copy of the pieces to a value of `type`. Sets `operands` to the roots that the copy reads.
Plan plan_concat_copy(const ConcatMap& pieces, Type type, int threads, std::vector<ValueId>& operands);

}  // namespace tidu::cpu_detail
