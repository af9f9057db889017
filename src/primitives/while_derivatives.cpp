// while_derivatives.cpp - the JVP of while, its transpose, and its form with a bound.
//
// Note [Tangents of a while]: the number of steps is unknown before the loop, so that residuals of steps
// cannot be stored. The linear graph has a while of its own, whose carries are the tangents and those primal
// carries that they and cond need, recomputed. It is linear in the tangents, and so are its derivatives.
//
// With a bound all derivatives are those of a scan: see while_as_scan.cpp.
#include "primitives/while.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

class WhileJvp {
 public:
  WhileJvp(JvpContext& c, const WhileParts& loop) : c_(c), loop_(loop) {
    for (std::size_t i = 0; i < loop.num_operands; ++i) active_.push_back(c.active(i));
    bool grew = true;
    while (grew) {
      inner_ = c.host().linearize(loop.body, active_);
      grew = false;
      for (std::size_t k = 0; k < loop.num_carry; ++k) {
        if (active_[loop.carry(k)] || !inner_.tangent_of_output[k]) continue;
        active_[loop.carry(k)] = grew = true;
      }
    }
  }

  Derivatives emit() {
    Derivatives result = Derivatives::absent(loop_.num_carry);
    bool any = false;
    for (std::size_t k = 0; k < loop_.num_carry; ++k) {
      if (loop_.stays(k)) {
        result.set(k, c_.tangent(loop_.carry(k)));
      } else {
        any = any || active_[loop_.carry(k)];
      }
    }
    if (!any) return result;
    add_operands();
    const std::vector<Value> tangents = emit_loop();
    for (std::size_t j = 0; j < slots_.size(); ++j) result.set(slots_[j], tangents[num_primal_ + j]);
    return result;
  }

 private:
  // Consts: fixed operands and their tangents; carries: the others and theirs.
  void add_operands() {
    in_cond_.resize(loop_.num_operands);
    in_body_.resize(loop_.num_operands);
    tangents_.resize(loop_.num_operands);
    for (const bool fixed : {true, false}) {
      for (std::size_t i = 0; i < loop_.num_operands; ++i) {
        if (loop_.is_fixed(i) != fixed) continue;
        const std::string name = detail::str('x', i);
        const WhileBuilder::InBoth place =
            fixed ? builder_.add_const(name, c_.primal(i)) : builder_.add_carry(name, c_.primal(i), false);
        if (!fixed) ++num_primal_;
        in_cond_[i] = place.in_cond;
        in_body_[i] = place.in_body;
      }
      for (std::size_t i = 0; i < loop_.num_operands; ++i) {
        if (loop_.is_fixed(i) != fixed || !active_[i]) continue;
        const std::string name = detail::str("tangent.", i);
        const Value first = c_.active(i) ? *c_.tangent(i) : ops::full(c_.emitter(), loop_.type(i), 0.0);
        tangents_[i] =
            (fixed ? builder_.add_const(name, first) : builder_.add_carry(name, first, true)).in_body;
        if (!fixed) slots_.push_back(i - loop_.shape.num_consts);
      }
    }
  }

  std::vector<Value> emit_loop() {
    builder_.set_predicate(inline_graph(builder_.cond(), loop_.cond, in_cond_)[loop_.cond.outputs()[0]]);
    const std::vector<Value> primal = inline_graph(builder_.body(), inner_.primal, in_body_);
    std::vector<Value> arguments;
    for (std::size_t r = 0; r < inner_.num_residuals; ++r)
      arguments.push_back(primal[inner_.primal.outputs()[loop_.num_carry + r]]);
    for (std::size_t i = 0; i < loop_.num_operands; ++i) {
      if (active_[i]) arguments.push_back(tangents_[i]);
    }
    const std::vector<Value> linear = inline_graph(builder_.body(), inner_.linear, arguments);
    for (std::size_t k = 0; k < loop_.num_carry; ++k) {
      if (!loop_.stays(k)) builder_.add_output(primal[inner_.primal.outputs()[k]]);
    }
    // If a step drops a carry's tangent, the carry has one before the first step.
    for (const std::size_t k : slots_) {
      const std::optional<std::size_t> at = inner_.tangent_of_output[k];
      builder_.add_output(at ? linear[inner_.linear.outputs()[*at]]
                             : ops::full(builder_.body(), loop_.type(loop_.carry(k)), 0.0));
    }
    return builder_.emit(c_.emitter(), std::nullopt);
  }

  JvpContext& c_;
  const WhileParts& loop_;
  std::vector<bool> active_;  // by operand, in some step
  InnerLinearization inner_;
  WhileBuilder builder_{loop_};
  std::vector<Value> in_cond_, in_body_, tangents_;  // by operand, in the graphs that are made
  std::size_t num_primal_ = 0;                       // carries before those of tangents
  std::vector<std::size_t> slots_;                   // by carry of tangents: the result it belongs to
};

// --- with a bound

Derivatives jvp_bounded(JvpContext& c, const WhileParts& loop) {
  std::vector<bool> active;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < loop.num_operands; ++i) active.push_back(c.active(i));
  const InnerLinearization inner = c.host().linearize(while_as_scan(loop), active);
  Derivatives result = Derivatives::absent(loop.num_carry);
  if (inner.linear.outputs().empty()) return result;
  const std::vector<Value> primal = inline_graph(c.emitter(), inner.primal, c.primals());
  std::vector<Value> outputs;
  for (const ValueId id : inner.primal.outputs()) outputs.push_back(primal[id]);
  c.host().replace_results(std::span<const Value>(outputs.data(), loop.num_carry));
  operands.assign(outputs.begin() + static_cast<std::ptrdiff_t>(loop.num_carry), outputs.end());
  for (std::size_t i = 0; i < loop.num_operands; ++i) {
    if (active[i]) operands.push_back(*c.tangent(i));
  }
  const std::vector<Value> linear = inline_graph(c.emitter(), inner.linear, operands);
  for (std::size_t k = 0; k < loop.num_carry; ++k) {
    if (const auto at = inner.tangent_of_output[k]) result.set(k, linear[inner.linear.outputs()[*at]]);
  }
  return result;
}

// For the results that have cotangents and depend on linear operands.
Derivatives transpose_bounded(TransposeContext& c, const WhileParts& loop) {
  Derivatives result = Derivatives::absent(loop.num_operands);
  std::vector<bool> linear, all(loop.num_operands, true);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < loop.num_operands; ++i) {
    linear.push_back(c.linear(i));
    if (!c.linear(i)) operands.push_back(c.operand(i));
  }
  std::vector<bool> in_some_step = linear;
  loop.spread(in_some_step);
  std::vector<std::size_t> slots;
  for (std::size_t k = 0; k < loop.num_carry; ++k) {
    if (!c.cotangent(k) || !in_some_step[loop.carry(k)]) continue;
    slots.push_back(k);
    operands.push_back(*c.cotangent(k));
  }
  if (slots.empty()) return result;
  const Graph steps = restricted(while_as_scan(loop, IdleSteps::select, in_some_step), all, slots);
  // The value of cond on the first carries is in the graph around the scan.
  const InnerTransposition inner =
      c.host().transpose(separated(steps, linear), linear, std::vector<bool>(slots.size(), true));
  const std::vector<Value> values = inline_graph(c.emitter(), inner.graph, operands);
  for (std::size_t i = 0; i < loop.num_operands; ++i) {
    if (const auto at = inner.cotangent_of_input[i]) result.set(i, values[inner.graph.outputs()[*at]]);
  }
  return result;
}

}  // namespace

Derivatives jvp_while(JvpContext& c) {
  const WhileParts loop(c.op());
  return loop.shape.max_steps ? jvp_bounded(c, loop) : WhileJvp(c, loop).emit();
}

Derivatives transpose_while(TransposeContext& c) {
  const WhileParts loop(c.op());
  if (loop.shape.max_steps) return transpose_bounded(c, loop);
  throw ADRuleError(
      ADRuleError::Rule::transpose, "while", std::nullopt,
      detail::str("[while] expected a loop with a bound for reverse mode, got one without in ",
                  detail::in_quotes(loop.body.name()),
                  ": nobody knows how many steps there would be to keep values of. Give it max_steps, or use "
                  "scan, or fori_loop with whole numbers as bounds; forward mode needs neither"));
}

}  // namespace tidu::prim
