// moved_parts.hpp - where the elements of what transposes, slices and concatenates make were before: boxes of
// it, each of them a piece of another value.
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

/// An axis of a box of a value, and of the elements of a root that are there.
struct MovedAxis {
  std::int64_t begin = 0, extent = 0;  ///< of the box
  std::int64_t stride = 0;             ///< of the root, in elements
};
struct MovedPart {
  ValueId from = 0;         ///< the root
  std::int64_t offset = 0;  ///< of the box's first element there
  std::vector<MovedAxis> axes;
};
using MovedParts = std::vector<MovedPart>;

/// Most parts that one operation copies.
inline constexpr std::size_t max_parts = 16;

/// Is it a transpose, a slice or a concatenate of more than one element, and of axes not too many?
bool makes_parts(const Graph& graph, std::uint32_t operation);

/// Bytes that lie side by side where parts are copied from, and to; beyond some they are not counted.
struct MovedLines {
  /// Of the parts that make a value of that type.
  static MovedLines of(const MovedParts& parts, Type type);
  /// Of some length, and as long as the others along the last axis, or merged?
  bool are_as_long_as(const MovedLines& others) const;

  std::size_t of_last = 0;  ///< along the last axis
  std::size_t merged = 0;   ///< and along those before it that go on where it ends
};

/// Values that are in no memory, and what they are made of. Refers to the program.
class MovedValues {
 public:
  explicit MovedValues(const Program& program) : program_(program), graph_(program.graph()) {}

  void add(ValueId id, MovedParts parts) { made_of_.emplace(id, std::move(parts)); }
  void remove(ValueId id) { made_of_.erase(id); }
  void clear() { made_of_.clear(); }
  bool contains(ValueId id) const { return made_of_.count(id) != 0; }
  const MovedParts& at(ValueId id) const { return made_of_.at(id); }

  /// What an operation that makes parts makes its result of, all in memory; none where it is too much.
  std::optional<MovedParts> result_of(std::uint32_t operation) const;
  /// The root in which the elements of a value are, and their places there; none where they are not one part,
  /// whose axes are the same.
  std::optional<std::pair<ValueId, StridedElements>> places_of(ValueId id) const;

 private:
  MovedParts parts_of(ValueId id) const;

  const Program& program_;
  const Graph& graph_;
  std::unordered_map<ValueId, MovedParts> made_of_;
};

/// The step that copies the parts of a value of that type; `operands` become the roots that it reads.
Plan plan_parts(const MovedParts& parts, Type type, int threads, std::vector<ValueId>& operands);

}  // namespace tidu::cpu_detail
