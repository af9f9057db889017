// scan.hpp - functions that the rules of scan share: an op taken apart, and the graph of one step assembled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::prim {

/// The attributes of a scan, and its operands and results by kind: operand i is input i of the body, and
/// result k output k, except for the leading axis of xs and ys.
struct ScanParts {
  explicit ScanParts(const Op& op);
  Graph body;
  ScanShape shape;
  std::size_t num_inputs, num_outputs;

  enum class Kind : std::uint8_t { fixed, carry, x };
  Kind kind(std::size_t input) const {
    if (input < shape.num_consts) return Kind::fixed;
    return input < shape.num_consts + shape.num_carry ? Kind::carry : Kind::x;
  }
  bool is_const(std::size_t input) const { return kind(input) == Kind::fixed; }
  bool is_x(std::size_t input) const { return kind(input) == Kind::x; }
  bool is_y(std::size_t output) const { return output >= shape.num_carry; }
  /// The input of the body for carry k.
  std::size_t carry(std::size_t k) const { return shape.num_consts + k; }
  ValueId input(std::size_t i) const { return body.inputs()[i]; }
  ValueId output(std::size_t k) const { return body.outputs()[k]; }
  /// Adds to the flags, by input, the carries that depend on flagged inputs in some step; `inexact`: only
  /// floating and complex ones. Returns the dependent values of the body.
  std::vector<bool> spread(std::vector<bool>& inputs, bool inexact) const;
};

/// The body of a scan that a rule makes, and its operands. Operands are added kind by kind: consts, then
/// carries, then xs; so are outputs.
class ScanBuilder {
 public:
  ScanBuilder(std::string name, const PrimitiveSet& set) : builder_(std::move(name), set) {}

  /// Such an operand of the scan, and the input of the body that stands for it. Names differ.
  Value add_const(std::string_view name, Value operand);
  Value add_carry(std::string_view name, Value first);
  Value add_x(std::string_view name, Value operand);
  /// An output of the body: a carry or a slice of ys.
  void add_output(Value value) { outputs_.push_back(value); }
  GraphBuilder& body() { return builder_; }
  bool has_outputs() const { return !outputs_.empty(); }
  /// The scan, on `emitter`. Once.
  Values emit(Emitter& emitter, std::int64_t length, bool reverse);

 private:
  GraphBuilder builder_;
  ScanShape shape_;
  std::vector<Value> operands_, outputs_;
};

Type without_leading_axis(Type type);
Type with_leading_axis(Type type, std::int64_t extent);
/// The same for every example of a batch.
Value broadcast_to_batch(Value x, std::int64_t size);

// --- the rules, each in a file of its own
Derivatives jvp_scan(JvpContext& c);
Derivatives transpose_scan(TransposeContext& c);
Values batch_scan(BatchContext& c);

}  // namespace tidu::prim
