// while_batch.cpp - while over a leading axis.
//
// Note [Examples with different numbers of steps]: if cond depends on batched values, the loop goes on while
// any example does, and carries of those that have ended are unchanged. Which examples go on is a carry, so
// that cond is computed once for each step.
#include "primitives/cond.hpp"
#include "primitives/gated_loops.hpp"
#include "primitives/scan.hpp"
#include "primitives/while.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

class WhileBatch {
 public:
  explicit WhileBatch(BatchContext& c) : c_(c), loop_(c.op()), batched_(batched_operands(c)) {
    loop_.spread(batched_);
    steps_differ_ = depending_on(loop_.cond, batched_)[loop_.cond.outputs()[0]];
    for (std::size_t k = 0; k < loop_.num_carry && steps_differ_; ++k) {
      if (!loop_.stays(k)) batched_[loop_.carry(k)] = true;
    }
    // A number that examples share is one of each for its derivative, as with cond: see Note [Cases not
    // taken].
    for (std::size_t i = 0; i < loop_.num_operands && steps_differ_ && loop_.shape.max_steps; ++i) {
      const Type type = c.operand(i).type();
      batched_[i] = batched_[i] || (type.rank() == 0 && is_inexact(type.dtype()));
    }
    told_ = steps_differ_ && holds_unbounded(loop_.body);
    std::vector<bool> inputs = batched_;
    if (told_) inputs.push_back(true);
    body_ = c.host().batch(told_ ? gated(loop_.body) : loop_.body, inputs, c.size());
    if (steps_differ_) cond_ = c.host().batch(loop_.cond, batched_, c.size());
  }

  Values run() {
    add_operands();
    if (steps_differ_) {
      const Value first = inline_graph(c_.emitter(), cond_, operands_)[cond_.outputs()[0]];
      const WhileBuilder::InBoth place = builder_.add_carry("goes_on", first, false);
      goes_on_ = place.in_body;
      builder_.set_predicate(ops::reduce_or(place.in_cond, {0}));
    } else {
      builder_.set_predicate(
          outputs_given(builder_.cond(), loop_.cond, plain(in_cond_), loop_.cond.outputs())[0]);
    }
    step();
    // If all carries stay unchanged there is nothing to compute.
    std::vector<Value> results;
    if (steps_differ_ || !all_stay()) results = builder_.emit(c_.emitter(), loop_.shape.max_steps);
    Values all;
    for (std::size_t k = 0, j = 0; k < loop_.num_carry; ++k) {
      const std::size_t i = loop_.carry(k);
      all.push_back(loop_.stays(k) ? operands_[i] : results[j++]);
    }
    return all;
  }

 private:
  bool all_stay() const {
    for (std::size_t k = 0; k < loop_.num_carry; ++k) {
      if (!loop_.stays(k)) return false;
    }
    return true;
  }

  void add_operands() {
    in_cond_.resize(loop_.num_operands);
    in_body_.resize(loop_.num_operands);
    for (std::size_t i = 0; i < loop_.num_operands; ++i) {
      const Value operand = c_.operand(i);
      operands_.push_back(batched_[i] && !c_.batched(i) ? broadcast_to_batch(operand, c_.size()) : operand);
    }
    for (const bool fixed : {true, false}) {
      for (std::size_t i = 0; i < loop_.num_operands; ++i) {
        if (loop_.is_fixed(i) != fixed) continue;
        const std::string name = detail::str('x', i);
        const WhileBuilder::InBoth place =
            fixed ? builder_.add_const(name, operands_[i]) : builder_.add_carry(name, operands_[i], true);
        in_cond_[i] = place.in_cond;
        in_body_[i] = place.in_body;
      }
    }
  }

  // Those that are not batched.
  std::vector<Value> plain(std::vector<Value> values) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (batched_[i]) values[i] = Value();
    }
    return values;
  }

  // Values of the batched body, and of the body for values that are not batched.
  void step() {
    std::vector<ValueId> of_mapped, of_body;
    for (std::size_t k = 0; k < loop_.num_carry; ++k) {
      if (loop_.stays(k)) continue;
      if (batched_[loop_.carry(k)]) {
        of_mapped.push_back(body_.outputs()[k]);
      } else {
        of_body.push_back(loop_.body.outputs()[k]);
      }
    }
    // See Note [Cases not taken]. Without a bound no cotangent goes back.
    std::vector<Value> read = in_body_;
    for (std::size_t i = 0; i < read.size() && steps_differ_ && loop_.shape.max_steps; ++i) {
      if (batched_[i]) read[i] = where_taken(goes_on_, read[i]);
    }
    if (told_) read.push_back(goes_on_);
    const std::vector<Value> mapped = outputs_given(builder_.body(), body_, read, of_mapped),
                             unmapped = outputs_given(builder_.body(), loop_.body, plain(in_body_), of_body);
    std::vector<Value> next = in_body_;
    auto next_mapped = mapped.begin();
    auto next_unmapped = unmapped.begin();
    for (std::size_t k = 0; k < loop_.num_carry; ++k) {
      const std::size_t i = loop_.carry(k);
      if (loop_.stays(k)) continue;
      next[i] = batched_[i] ? *next_mapped++ : *next_unmapped++;
      if (steps_differ_) {
        const Value which = ops::broadcast_in_dim(goes_on_, next[i].shape(), {0});
        next[i] = ops::select_n(which, in_body_[i], next[i]);
      }
      builder_.add_output(next[i]);
    }
    if (!steps_differ_) return;
    const ValueId wanted[] = {cond_.outputs()[0]};
    const Value holds = outputs_given(builder_.body(), cond_, next, wanted)[0];
    builder_.add_output(ops::logical_and(goes_on_, holds));
  }

  BatchContext& c_;
  WhileParts loop_;
  std::vector<bool> batched_;  // by operand, in some step
  bool steps_differ_ = false;  // does each example have a number of steps of its own?
  bool told_ = false;          // has the body an input for it? See Note [Loops not taken]
  Graph body_, cond_;          // batched
  WhileBuilder builder_{loop_};
  std::vector<Value> operands_, in_cond_, in_body_;  // by operand
  Value goes_on_;                                    // in the body
};

}  // namespace

Values batch_while(BatchContext& c) { return WhileBatch(c).run(); }

}  // namespace tidu::prim
