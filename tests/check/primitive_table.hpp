// primitive_table.hpp - the one table that drives the tests of derivatives: for each primitive of the
// standard set its call, its operands, and its precision. A primitive is added by a row (two, if it has
// several forms).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/level.hpp"
#include "check/numeric.hpp"
#include "tidu/graph/attribute.hpp"
#include "tidu/graph/primitive_set.hpp"
#include "tidu/graph/value.hpp"

namespace tidu::test {

/// The range of the elements of an operand.
struct Domain {
  enum class Kind : std::uint8_t { range, whole } kind = Kind::range;
  double low = -2.0, high = 2.0;  ///< of `range` also the imaginary parts' size; of `whole` both included
};
/// Numbers in between; of complex dtypes with imaginary parts in [-0.7, 0.7].
constexpr Domain between(double low, double high) { return {Domain::Kind::range, low, high}; }
/// Whole numbers, so that there are ties and zeros.
constexpr Domain whole(double low, double high) { return {Domain::Kind::whole, low, high}; }

struct Operand {
  Shape shape;
  Domain domain{};
  std::optional<DType> dtype{};  ///< the row's when not given
};

struct Row {
  std::string_view primitive;
  std::vector<DType> dtypes;
  std::vector<Operand> operands;
  /// Inner graphs are made of the set.
  std::function<Attributes(DType, const PrimitiveSet&)> attributes = [](DType, const PrimitiveSet&) {
    return Attributes();
  };
  int order = 2;            ///< of derivatives that are tested
  double tolerance = 1.0;   ///< factor on the tolerances
  std::string_view note{};  ///< distinguishes rows of one primitive
  /// The graph around the operation, where operands must be more than random numbers or results have a
  /// freedom that a derivative cannot show; the operation on the operands when not given.
  std::function<Values(const Op&, std::span<const Value>)> use{};
};

const std::vector<Row>& primitive_table();
/// The row with that note.
Row noted(Row row, std::string_view note);
/// Adds the rows of operations that hold graphs.
void add_graph_holders(std::vector<Row>& table);
/// Adds the rows of linear algebra.
void add_linalg(std::vector<Row>& table);
/// Adds the rows of collectives, over an axis of one rank; tests with MPI cover more ranks.
void add_collectives(std::vector<Row>& table);
/// "sin f64" or "take (drop) f32".
std::string describe(const Row& row, DType dtype);
/// The row's primitive as a graph of one operation, and operands from their domains; wrt is empty.
check::Subject subject_of(const Row& row, DType dtype, std::uint64_t seed, const PrimitiveSet& set);

}  // namespace tidu::test
