// body.hpp - what a kernel computes: values that follow from each other, read from memory or made by
// operations, and Writer, which says them as code at one index after another.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidu/graph/op.hpp"
#include "tidu/graph/type.hpp"

namespace tidu::cuda_detail {

/// A value of a body: operand `operand` of the kernel in memory, or the only result of `op`.
struct Piece {
  std::optional<Op> op;
  std::vector<std::uint32_t> in;  ///< pieces before it
  Type type;
  std::uint32_t operand = 0;
};

/// Values in topological order, and which of them the kernel leaves.
struct Body {
  std::vector<Piece> pieces;
  std::vector<std::uint32_t> results;
  std::vector<Type> operands;  ///< in memory
  /// Adds an operand in memory.
  std::uint32_t add_operand(Type type);
  /// Adds a value that an operation makes.
  std::uint32_t add(const Op& op, std::vector<std::uint32_t> in, Type type);
};

/// Type of an element in memory, and of what it is computed in, as the prelude names them.
std::string_view memory_name(DType dtype);
std::string_view value_name(DType dtype);
/// An element as a constant expression of the value type.
std::string constant_text(const Literal& literal, std::int64_t element);

/// Writes code that computes pieces of a body at indices. Every value is written once for each index at which
/// it is asked for. Names: operand k in memory is `pk`; where it is read in packs its element is `xk`.
class Writer {
 public:
  /// An index into a value of some shape: known by its place in row-major order, by its coordinates, or both.
  using Index = std::uint32_t;

  explicit Writer(const Body& body) : body_(body), packed_(body.operands.size()) {}

  /// The index whose place is the expression.
  Index by_place(const Shape& shape, const std::string& place);
  Index by_axes(const Shape& shape, std::vector<std::string> axes);
  /// The same place in a value of another shape with as many elements.
  Index reshaped(Index index, const Shape& shape);
  const Shape& shape(Index index) const { return records_[index].shape; }
  const std::string& place(Index index);
  const std::vector<std::string>& axes(Index index);

  /// Name (or constant) of the value at that index, written if it is not yet.
  std::string value(std::uint32_t piece, Index index);
  /// Says beforehand what the value is at that index.
  void set_value(std::uint32_t piece, Index index, std::string name);
  /// The same at whatever index it is asked for from now on.
  void fix(std::uint32_t piece, std::string name) { fixed_[piece] = std::move(name); }
  /// A variable with that value.
  std::string define(std::string_view type, const std::string& expression);
  /// A coordinate; constants stay what they are.
  std::string define_index(const std::string& expression);
  /// A name that nothing else has.
  std::string fresh(std::string_view prefix) { return std::string(prefix) + std::to_string(next_++); }
  void line(const std::string& text);
  /// What is written in between is known only there.
  void open_scope();
  void close_scope();
  /// A variable that is `yes` where the condition holds and `no` elsewhere; each is written in a branch of
  /// its own.
  std::string choose(std::string_view type, const std::string& condition,
                     const std::function<std::string()>& yes, const std::function<std::string()>& no);

  /// A number that is the kernel's argument `gk`, so that kernels which differ in it alone have one text.
  std::string parameter(std::int64_t number);
  /// These numbers; ", const u64 g0, …".
  const std::vector<std::int64_t>& parameters() const { return parameters_; }
  std::string parameter_list() const;

  const Body& body() const { return body_; }
  const std::string& text() const { return text_; }
  /// Takes what was written so far.
  std::string take_text() { return std::exchange(text_, std::string()); }
  /// Operands that are read at that place from now on are taken as `xk`, unless they end before the index
  /// does.
  void pack_at(Index index) {
    packed_place_ = place(index);
    packed_size_ = num_elements(records_[index].shape);
  }
  /// By operand: was it read so since it was asked for?
  std::vector<bool> take_packed() { return std::exchange(packed_, std::vector<bool>(body_.operands.size())); }

 private:
  struct Record {
    Shape shape;
    std::optional<std::string> place;
    std::optional<std::vector<std::string>> axes;
    std::optional<Index> origin;  // another shape's index with the same place
  };
  Index intern(const std::string& key, Record record);
  std::string read(const Piece& piece, Index index);
  std::vector<std::string> split(const Shape& shape, std::string place);
  void split_from_origin(Index index);

  const Body& body_;
  std::deque<Record> records_;
  std::map<std::string, Index> known_;
  std::map<std::pair<std::uint32_t, Index>, std::string> values_;
  std::map<std::uint32_t, std::string> fixed_;
  std::vector<std::function<void()>> undo_;
  std::vector<std::size_t> scopes_;
  std::vector<std::int64_t> parameters_;
  std::string packed_place_;
  std::int64_t packed_size_ = 0;
  std::vector<bool> packed_;
  std::string text_;
  std::size_t next_ = 0;
};

/// Writes the value of an operation's result at an index.
using ExpressionRule = std::string (*)(Writer& writer, const Piece& piece, Writer::Index index);
/// The rule of a primitive, or null: its results are not computed element by element.
ExpressionRule find_expression(std::string_view primitive);
/// Has the operation one? Not a constant of many elements.
bool is_expression(const Op& op);

/// A row of the rules.
struct ExpressionEntry {
  std::string_view name;
  ExpressionRule rule;
};
// The rules, by family.
std::vector<ExpressionEntry> elementwise_expressions();
std::vector<ExpressionEntry> layout_expressions();
std::vector<ExpressionEntry> indexing_expressions();

// Sums and products of indices as text.
std::string times(const std::string& index, std::int64_t factor);
std::string plus(const std::string& a, const std::string& b);

}  // namespace tidu::cuda_detail
