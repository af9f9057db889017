// generator.hpp - random graphs over the differentiable primitives of the standard set: several outputs,
// repeated ones, inputs as outputs, inactive inputs, shared sub-expressions, graphs in operations. Every
// value is of rank 0 to 2 and of one extent, so that each fits every operation. Half of the graphs compute on
// small integers alone (Gaussian ones if complex): every way to a derivative must give the same number to the
// last bit, ties included. The others are smooth near every point, so that differences can be used:
// operations with kinks (an order, a maximum, pivots) decide between numbers that no input brings near each
// other.
#pragma once

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "check/numeric.hpp"
#include "fuzz/choices.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/linearize/transforms.hpp"

namespace tidu::test {

struct RandomCase {
  Graph graph;
  Names wrt;                           ///< the active inputs
  std::vector<std::size_t> positions;  ///< of wrt
  check::Tensors inputs;
  bool exact;
};

/// Inputs of the graph are "x0", "x1", … and the boolean "which".
RandomCase random_case(Choices& choices);

/// The names of the primitives in a graph and in the graphs that its operations hold.
std::set<std::string_view> primitives_in(const Graph& graph);

/// Numbers of a case: whole ones of -2 .. 2 where it is exact, else uniform in [-1, 1).
check::Tensors random_numbers(check::Random& random, std::span<const Type> types, bool exact);

class Generator {
 public:
  /// The graphs in which a kind of operation can be used.
  enum Use : unsigned { exact = 1, smooth = 2, real = 4, complex = 8, any = 15, outermost = 16 };
  struct Kind {
    std::string_view name;
    unsigned use;
    /// The new values, which are brought to rank and extent of the others.
    Values (*make)(Generator&);
  };

  struct Mode {
    bool exact;
    DType dtype;  ///< f64 or c128
    std::int64_t extent;
    int depth;  ///< of graphs in operations
  };

  Generator(Choices& choices, GraphBuilder& builder, Mode mode);
  void add_value(Value value) { values_.push_back(value); }
  void set_which(Value which) { which_ = which; }
  void add_operation();
  /// The last values are likely, an input or a repeated output possible.
  std::vector<Value> outputs();

  // The source of choices for kinds.
  Choices& choices() { return choices_; }
  const Mode& mode() const { return mode_; }
  std::int64_t extent() const { return mode_.extent; }
  bool is_exact() const { return mode_.exact; }
  bool is_complex() const { return mode_.dtype == c128; }
  Type type_of_rank(std::size_t rank) const { return {mode_.dtype, Shape(rank, mode_.extent)}; }
  Value any_value() { return values_[choices_.below(values_.size())]; }
  /// Any value, brought to that rank.
  Value of_rank(std::size_t rank);
  /// A value of rank 1 or 2.
  Value array() { return of_rank(1 + choices_.below(2)); }
  Value like(Value x) { return of_rank(x.rank()); }
  std::int64_t axis_of(Value x) { return static_cast<std::int64_t>(choices_.below(x.rank())); }
  Value which() const { return which_; }
  /// Whole numbers in low .. high.
  Value whole(DType dtype, const Shape& shape, std::int64_t low, std::int64_t high);
  Value number(double value) { return ops_full(Shape{}, value); }
  Value ops_full(const Shape& shape, double value);
  /// A real number as one of the graph's dtype.
  Value as_value(Value x);
  /// Smooth in x, and real and imaginary part within [-1, 1].
  Value bounded(Value x);
  /// centre + amplitude bounded(x)
  Value around(double centre, double amplitude, Value x);
  /// x itself where exact, ties and zeros included. Else, of real x, elements more than 1 apart from each
  /// other and 0.1 from whole numbers, in an order that does not depend on x; those of phase 1 also more than
  /// 0.1 apart from all of phase 0.
  Value separate(Value x, int phase = 0);
  /// A graph of one to three operations, in as many inputs as there are operands, of their types.
  Graph inner(std::span<const Value> operands);

 private:
  Value fit(Value x);

  Choices& choices_;
  GraphBuilder& builder_;
  Mode mode_;
  std::vector<Value> values_;
  Value which_;
};

/// All kinds, by the file that has them.
std::span<const Generator::Kind> array_kinds();
std::span<const Generator::Kind> order_kinds();
std::span<const Generator::Kind> smooth_kinds();
std::span<const Generator::Kind> linalg_kinds();
std::span<const Generator::Kind> graph_kinds();

}  // namespace tidu::test
