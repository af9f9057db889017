// scan_derivatives.cpp - the JVP of scan and the transpose of the linear scan.
//
// Note [Residuals of a loop]: the linear scan of a scan reads residuals of its body in four ways. Values that
// depend on no operand are recomputed in its body. Values that depend on consts alone are computed once,
// before the loop. A slice of xs or a const is read directly. All others become further ys of the primal
// scan, stacked.
//
// Note [Carries of a linear scan]: each carry that has a tangent in some step is a carry of the linear scan;
// a fixed point finds them. If its first tangent is absent, it starts from zeros, which are no linear
// operand. Transposed, it is a carry whose cotangent is not used. Carries of a linear scan that are not
// linear in it occur only in graphs of users; a scan before the transposed one computes their values in each
// step.
//
// The cotangent of a const is a sum over all steps, and so is that of a carry that every step passes on
// unchanged. Such sums of 16 bits are carried in f32 and rounded after the loop, as the transform holds its
// own sums (Note [Wide accumulation] in linearize/transpose.cpp).
#include "primitives/scan.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::prim {
namespace {

class ScanJvp {
 public:
  explicit ScanJvp(JvpContext& c) : c_(c), scan_(c.op()) {
    for (std::size_t i = 0; i < c.num_operands(); ++i) active_.push_back(c.active(i));
    bool grew = true;
    while (grew) {
      inner_ = c.host().linearize(scan_.body, active_);
      grew = false;
      for (std::size_t k = 0; k < scan_.shape.num_carry; ++k) {
        if (active_[scan_.carry(k)] || !inner_.tangent_of_output[k]) continue;
        active_[scan_.carry(k)] = grew = true;
      }
    }
  }

  Derivatives emit() {
    Derivatives result = Derivatives::absent(scan_.num_outputs);
    bool any = false;
    for (const auto& tangent : inner_.tangent_of_output) any = any || tangent.has_value();
    if (!any) return result;
    save_residuals();

    ScanBuilder builder(inner_.linear.name(), scan_.body.primitives());
    arguments_.resize(inner_.linear.inputs().size());
    for (const Kind kind : {Kind::fixed, Kind::carry, Kind::x}) add(builder, kind);
    add_constant_residuals(builder.body());
    const std::vector<Value> values = inline_graph(builder.body(), inner_.linear, arguments_);
    std::vector<std::size_t> slots;
    for (std::size_t k = 0; k < scan_.num_outputs; ++k) {
      const auto& at = inner_.tangent_of_output[k];
      if (!at && (scan_.is_y(k) || !active_[scan_.carry(k)])) continue;
      slots.push_back(k);
      builder.add_output(at ? values[inner_.linear.outputs()[*at]]
                            : ops::full(builder.body(), scan_.body.type(scan_.output(k)), 0.0));
    }
    const Values tangents = builder.emit(c_.emitter(), scan_.shape.length, scan_.shape.reverse);
    for (std::size_t j = 0; j < slots.size(); ++j) {
      if (inner_.tangent_of_output[slots[j]]) result.set(slots[j], tangents[j]);
    }
    return result;
  }

 private:
  using Kind = ScanParts::Kind;
  struct Residual {
    std::optional<Kind> kind;  // in the linear scan; none: computed in its body
    Value operand;             // of the linear scan
  };
  ValueId residual(std::size_t r) const { return inner_.primal.outputs()[scan_.num_outputs + r]; }

  // See Note [Residuals of a loop]. Replaces the primal scan by one with further results.
  void save_residuals() {
    const Graph& primal = inner_.primal;
    std::vector<bool> loop(scan_.num_inputs), all(scan_.num_inputs, true);
    for (std::size_t i = 0; i < scan_.num_inputs; ++i) loop[i] = !scan_.is_const(i);
    const std::vector<bool> of_loop = depending_on(primal, loop), of_any = depending_on(primal, all);
    residuals_.resize(inner_.num_residuals);
    std::vector<std::size_t> input_at(primal.num_values(), scan_.num_inputs);
    for (std::size_t i = 0; i < scan_.num_inputs; ++i) input_at[primal.inputs()[i]] = i;
    constexpr std::size_t unknown = ~std::size_t{0};
    std::vector<std::size_t> y_at(primal.num_values(), unknown);  // among the results
    for (std::size_t k = scan_.shape.num_carry; k < scan_.num_outputs; ++k) y_at[primal.outputs()[k]] = k;

    std::vector<std::size_t> outputs(scan_.num_outputs), y_of(inner_.num_residuals, unknown);
    for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k] = k;
    std::vector<ValueId> before;
    bool replaces = false;
    for (std::size_t r = 0; r < inner_.num_residuals; ++r) {
      const ValueId id = residual(r);
      const std::size_t input = input_at[id];
      if (!of_any[id]) continue;
      if (!of_loop[id]) {
        residuals_[r].kind = Kind::fixed;
        before.push_back(id);
      } else if (input < scan_.num_inputs && scan_.is_x(input)) {
        residuals_[r] = {Kind::x, c_.primal(input)};
      } else {
        residuals_[r].kind = Kind::x;
        replaces = true;
        if (y_at[id] == unknown) {
          y_at[id] = outputs.size();
          outputs.push_back(scan_.num_outputs + r);
        }
        y_of[r] = y_at[id];
      }
    }
    compute_before(before);
    if (!replaces) return;
    const Values results =
        ops::scan(c_.emitter(), restricted(primal, all, outputs), c_.primals(), scan_.shape);
    c_.host().replace_results(std::span<const Value>(results.data(), scan_.num_outputs));
    for (std::size_t r = 0; r < inner_.num_residuals; ++r) {
      if (y_of[r] != unknown) residuals_[r].operand = results[y_of[r]];
    }
  }

  void compute_before(std::span<const ValueId> wanted) {
    if (wanted.empty()) return;
    std::vector<Value> inputs(scan_.num_inputs);
    for (std::size_t i = 0; i < scan_.shape.num_consts; ++i) inputs[i] = c_.primal(i);
    const std::vector<Value> values = outputs_given(c_.emitter(), inner_.primal, inputs, wanted);
    auto next = values.begin();
    for (std::size_t r = 0; r < inner_.num_residuals; ++r) {
      if (residuals_[r].kind == Kind::fixed) residuals_[r].operand = *next++;
    }
  }

  // Residuals and tangents of one kind of operands.
  void add(ScanBuilder& builder, Kind kind) {
    for (std::size_t r = 0; r < inner_.num_residuals; ++r) {
      if (residuals_[r].kind != kind) continue;
      const std::string name = detail::str("residual.", r);
      const Value operand = residuals_[r].operand;
      arguments_[r] = kind == Kind::x ? builder.add_x(name, operand) : builder.add_const(name, operand);
    }
    std::size_t at = inner_.num_residuals;
    for (std::size_t i = 0; i < scan_.num_inputs; ++i) {
      if (!active_[i]) continue;
      Value& argument = arguments_[at++];
      if (scan_.kind(i) != kind) continue;
      const std::string name = detail::str("tangent.", i);
      const std::optional<Value> tangent = c_.tangent(i);
      switch (kind) {
        case Kind::fixed: argument = builder.add_const(name, *tangent); break;
        case Kind::x: argument = builder.add_x(name, *tangent); break;
        case Kind::carry:
          argument = builder.add_carry(
              name, tangent ? *tangent : ops::full(c_.emitter(), scan_.body.type(scan_.input(i)), 0.0));
      }
    }
  }

  void add_constant_residuals(GraphBuilder& builder) {
    std::vector<ValueId> wanted;
    for (std::size_t r = 0; r < inner_.num_residuals; ++r) {
      if (!residuals_[r].kind) wanted.push_back(residual(r));
    }
    if (wanted.empty()) return;
    const std::vector<Value> none(scan_.num_inputs);
    const std::vector<Value> values = outputs_given(builder, inner_.primal, none, wanted);
    auto next = values.begin();
    for (std::size_t r = 0; r < inner_.num_residuals; ++r) {
      if (!residuals_[r].kind) arguments_[r] = *next++;
    }
  }

  JvpContext& c_;
  ScanParts scan_;
  std::vector<bool> active_;  // by input of the body, in some step
  InnerLinearization inner_;
  std::vector<Residual> residuals_;
  std::vector<Value> arguments_;  // by input of inner_.linear
};

// ct_consts is summed, ct_c goes back from step to step, ct_xs is made slice by slice, all in the other
// direction.
class ScanTranspose {
 public:
  explicit ScanTranspose(TransposeContext& c) : c_(c), scan_(c.op()) {
    for (std::size_t i = 0; i < c.num_operands(); ++i) linear_.push_back(c.linear(i));
    depends_ = scan_.spread(linear_, true);
    for (std::size_t k = 0; k < scan_.num_outputs; ++k) {
      const ValueId id = scan_.output(k);
      at_.push_back(outputs_.size());
      if (depends_[id] && is_inexact(scan_.body.type(id).dtype())) outputs_.push_back(k);
    }
    const Graph body = restricted(scan_.body, std::vector<bool>(scan_.num_inputs, true), outputs_);
    body_ = separated(body, linear_);
  }

  Derivatives emit() {
    Derivatives result = Derivatives::absent(scan_.num_inputs);
    if (!find_carried()) return result;
    const std::vector<std::optional<Value>> stacked = stack_carries();

    ScanBuilder builder(inner_.graph.name(), scan_.body.primitives());
    std::vector<Value> arguments(scan_.num_inputs), sums(scan_.num_inputs), cotangents(scan_.num_outputs);
    for (std::size_t i = 0; i < scan_.shape.num_consts; ++i) {
      if (!linear_[i]) arguments[i] = builder.add_const(detail::str("residual.", i), c_.operand(i));
    }
    for (std::size_t i = 0; i < scan_.shape.num_consts; ++i) {
      if (inner_.cotangent_of_input[i])
        sums[i] = builder.add_carry(detail::str("sum.", i), zeros(sum_type(i)));
    }
    for (std::size_t k = 0; k < scan_.shape.num_carry; ++k) {
      if (!carried_[k]) continue;
      const std::optional<Value> last = is_linear_output(k) ? c_.cotangent(k) : std::nullopt;
      const Value first = last ? *last : zeros(scan_.body.type(scan_.output(k)));
      const std::string name = detail::str("cotangent.", k);
      if (is_summed(k))
        sums[scan_.carry(k)] = builder.add_carry(name, converted(first, sum_type(scan_.carry(k)).dtype()));
      else
        cotangents[k] = builder.add_carry(name, first);
    }
    for (std::size_t i = scan_.shape.num_consts; i < scan_.num_inputs; ++i) {
      if (linear_[i]) continue;
      const std::string name = detail::str("residual.", i);
      if (scan_.is_x(i))
        arguments[i] = builder.add_x(name, c_.operand(i));
      else if (stacked[i])
        arguments[i] = builder.add_x(name, *stacked[i]);
    }
    for (std::size_t k = scan_.shape.num_carry; k < scan_.num_outputs; ++k) {
      if (is_linear_output(k) && c_.cotangent(k))
        cotangents[k] = builder.add_x(detail::str("cotangent.", k), *c_.cotangent(k));
    }
    const std::vector<Value> values = apply(builder.body(), arguments, cotangents);
    const auto of_input = [&](std::size_t i) {
      return values[inner_.graph.outputs()[*inner_.cotangent_of_input[i]]];
    };
    std::vector<std::size_t> owners;  // by output of the scan, its operand
    const auto give = [&](std::size_t i, Value value) {
      owners.push_back(i);
      builder.add_output(value);
    };
    const auto give_sum = [&](std::size_t i) {
      give(i, ops::add(sums[i], converted(of_input(i), sums[i].dtype())));
    };
    for (std::size_t i = 0; i < scan_.shape.num_consts; ++i) {
      if (inner_.cotangent_of_input[i]) give_sum(i);
    }
    for (std::size_t k = 0; k < scan_.shape.num_carry; ++k) {
      const std::size_t i = scan_.carry(k);
      if (!carried_[k]) continue;
      if (is_summed(k)) {
        inner_.cotangent_of_input[i] ? give_sum(i) : give(i, sums[i]);
        continue;
      }
      give(i, inner_.cotangent_of_input[i] ? of_input(i)
                                           : ops::full(builder.body(), scan_.body.type(scan_.input(i)), 0.0));
    }
    for (std::size_t i = scan_.carry(scan_.shape.num_carry); i < scan_.num_inputs; ++i) {
      if (inner_.cotangent_of_input[i]) give(i, of_input(i));
    }
    if (!builder.has_outputs()) return result;
    const Values results = builder.emit(c_.emitter(), scan_.shape.length, !scan_.shape.reverse);
    for (std::size_t j = 0; j < owners.size(); ++j) {
      const std::size_t i = owners[j];
      if (c_.linear(i)) result.set(i, converted(results[j], scan_.body.type(scan_.input(i)).dtype()));
    }
    return result;
  }

 private:
  // The type of the sum of an operand's cotangents over the steps; two terms need no more than one rounding.
  Type sum_type(std::size_t i) const {
    const Type type = scan_.body.type(scan_.input(i));
    const bool wide = scan_.shape.length > 2 && c_.host().wide_accumulation();
    return wide ? type.with_dtype(accumulation_dtype(type.dtype())) : type;
  }
  // Is it a carry of 16 bits that every step passes on unchanged? Then no step's cotangent of it goes through
  // the next one: they are summed as those of a const, beginning with that of the last carry.
  bool is_summed(std::size_t k) const {
    const std::size_t i = scan_.carry(k);
    return is_linear_output(k) && linear_[i] && scan_.output(k) == scan_.input(i) &&
           sum_type(i) != scan_.body.type(scan_.input(i));
  }
  // If wide_accumulation() is on, the set has an operation for it.
  Value converted(Value x, DType dtype) const {
    return x.dtype() == dtype ? x : scan_.body.primitives().transform_ops().convert(x, dtype);
  }
  bool is_linear_output(std::size_t k) const { return at_[k] < outputs_.size() && outputs_[at_[k]] == k; }
  Value zeros(Type type) const { return ops::full(c_.emitter(), type, 0.0); }

  // Which carries have a cotangent in some step. Says whether anything has one.
  bool find_carried() {
    std::vector<bool> seeded(outputs_.size());
    bool any = false;
    carried_.assign(scan_.shape.num_carry, false);
    for (std::size_t j = 0; j < outputs_.size(); ++j) {
      seeded[j] = c_.cotangent(outputs_[j]).has_value();
      any = any || seeded[j];
      if (scan_.is_y(outputs_[j])) continue;
      carried_[outputs_[j]] = seeded[j];
      if (is_summed(outputs_[j])) seeded[j] = false;
    }
    if (!any) return false;
    bool grew = true;
    while (grew) {
      inner_ = c_.host().transpose(body_, linear_, seeded);
      grew = false;
      for (std::size_t k = 0; k < scan_.shape.num_carry; ++k) {
        if (carried_[k] || !inner_.cotangent_of_input[scan_.carry(k)]) continue;
        carried_[k] = true;
        if (is_linear_output(k) && !is_summed(k)) seeded[at_[k]] = grew = true;
      }
    }
    return true;
  }

  // By operand: the values of carries that are not linear, in each step.
  std::vector<std::optional<Value>> stack_carries() {
    std::vector<std::optional<Value>> stacked(scan_.num_inputs);
    std::vector<ValueId> carries;
    std::vector<std::size_t> kept;  // carries, then slices of them
    for (std::size_t k = 0; k < scan_.shape.num_carry; ++k) {
      if (linear_[scan_.carry(k)]) continue;
      carries.push_back(scan_.input(scan_.carry(k)));
      kept.push_back(k);
    }
    if (carries.empty()) return stacked;
    const Graph all = with_more_outputs(scan_.body, carries);
    const std::size_t count = carries.size();
    for (std::size_t j = 0; j < count; ++j) kept.push_back(scan_.num_outputs + j);
    std::vector<bool> inputs(scan_.num_inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = !linear_[i];
    ScanShape shape = scan_.shape;
    shape.num_carry = count;
    shape.num_consts = 0;
    std::vector<Value> operands;
    for (std::size_t i = 0; i < scan_.num_inputs; ++i) {
      if (!inputs[i]) continue;
      operands.push_back(c_.operand(i));
      if (scan_.is_const(i)) ++shape.num_consts;
    }
    const Values results = ops::scan(c_.emitter(), restricted(all, inputs, kept), operands, shape);
    for (std::size_t j = 0; j < count; ++j) stacked[scan_.carry(kept[j])] = results[count + j];
    return stacked;
  }

  // The transposed body. Its inputs: those that are not linear, then a cotangent for each seeded output.
  std::vector<Value> apply(GraphBuilder& builder, const std::vector<Value>& arguments,
                           const std::vector<Value>& cotangents) const {
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < scan_.num_inputs; ++i) {
      if (!linear_[i]) inputs.push_back(arguments[i]);
    }
    for (const std::size_t k : outputs_) {
      if (cotangents[k].emitter() != nullptr) inputs.push_back(cotangents[k]);
    }
    return inline_graph(builder, inner_.graph, inputs);
  }

  TransposeContext& c_;
  ScanParts scan_;
  std::vector<bool> linear_;          // by input of the body, in some step
  std::vector<bool> depends_;         // by value of the body, on such
  std::vector<std::size_t> outputs_;  // of the body that do
  std::vector<std::size_t> at_;       // by output: its index among them, or that of the next
  Graph body_;                        // with these outputs
  std::vector<bool> carried_;         // by carry: has it a cotangent in some step?
  InnerTransposition inner_;          // of body_
};

}  // namespace

// Without steps the carries' tangents are their input tangents.
Derivatives jvp_scan(JvpContext& c) {
  const ScanParts parts(c.op());
  if (parts.shape.length > 0) return ScanJvp(c).emit();
  Derivatives result = Derivatives::absent(parts.num_outputs);
  for (std::size_t k = 0; k < parts.shape.num_carry; ++k) result.set(k, c.tangent(parts.carry(k)));
  return result;
}

Derivatives transpose_scan(TransposeContext& c) {
  const ScanParts parts(c.op());
  if (parts.shape.length > 0) return ScanTranspose(c).emit();
  Derivatives result = Derivatives::absent(parts.num_inputs);
  for (std::size_t k = 0; k < parts.shape.num_carry; ++k) {
    if (c.linear(parts.carry(k))) result.set(parts.carry(k), c.cotangent(k));
  }
  return result;
}

}  // namespace tidu::prim
