// while_loop.cpp - while_loop and fori_loop: a graph of one while, or one scan, called.
#include <algorithm>
#include <limits>
#include <numeric>

#include "frontend/context.hpp"
#include "frontend/steps.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/frontend/control_flow.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::frontend_detail {
namespace {

// Outputs of the step from `from` on are a carry like `carries`.
void require_carry(const Traced& step, std::size_t from, std::span<const Array> carries,
                   std::string_view function, Where where) {
  const auto outputs = step.graph.outputs().subspan(from);
  if (outputs.size() != carries.size()) {
    refuse(ErrorKind::invalid_argument, function,
           detail::str("expected a function that returns a carry of ", carries.size(),
                       " Arrays, as it gets, got ", outputs.size()),
           where);
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Type type = step.graph.type(outputs[k]);
    if (type == carries[k].type()) continue;
    refuse(ErrorKind::type, function,
           detail::str("expected a function that returns a carry of the types that it gets, ",
                       carries[k].type(), " for Array ", k, " of it, got ", type),
           where);
  }
}

Graph outputs_of(const Graph& step, std::size_t from, std::size_t count) {
  std::vector<std::size_t> outputs(count);
  std::iota(outputs.begin(), outputs.end(), from);
  return prim::restricted(step, std::vector<bool>(step.inputs().size(), true), outputs);
}

std::vector<Array> with_captured(const Traced& step, const std::vector<Array>& carries) {
  std::vector<Array> operands = step.captured;
  operands.insert(operands.end(), carries.begin(), carries.end());
  return operands;
}

}  // namespace

std::vector<Array> run_while(const std::vector<Array>& carries, const Traced& step, bool counts,
                             std::optional<std::int64_t> max_steps, Where where) {
  const std::string_view function = counts ? "fori_loop" : "while_loop";
  const auto wrong = [&](ErrorKind kind, const auto&... parts) {
    refuse(kind, function, detail::str(parts...), where);
  };
  const Type goes_on = step.graph.type(step.graph.outputs()[0]);
  if (goes_on != Type(bool_)) wrong(ErrorKind::type, "expected a condition of type bool[], got ", goes_on);
  if (max_steps && *max_steps < 0)
    wrong(ErrorKind::invalid_argument, "expected max_steps >= 0, got ", *max_steps);
  if (carries.empty()) {
    wrong(
        ErrorKind::invalid_argument,
        "expected a carry with one Array or more, got none (a whole number is passed on as it is: make init "
        "an Array of it)");
  }
  const std::size_t own = counts ? 1 : 0;
  require_carry(step, 1 + own, std::span(carries).subspan(own), function, where);
  refuse_moves(function, step.graph, where);
  const std::size_t captured = step.captured.size();
  const Graph both = consts_first(step.graph, captured);
  const auto emit = [&](Emitter& emitter, std::span<const Value> values) {
    return ops::while_loop(emitter, outputs_of(both, 0, 1), outputs_of(both, 1, carries.size()), values,
                           {captured, max_steps}, where);
  };
  std::vector<Array> results =
      call_operation(function, with_captured(step, carries), emit, where, std::span(&step.graph, 1));
  results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(own));
  return results;
}

std::vector<Array> run_fori(const std::vector<Array>& carries, const Traced& step, std::int64_t first,
                            std::int64_t length, Where where) {
  require_carry(step, 0, carries, "fori_loop", where);
  refuse_moves("fori_loop", step.graph, where);
  if (carries.empty()) return {};
  const std::size_t captured = step.captured.size();
  const Graph body = consts_first(step.graph, captured);
  // The number of the step is the first carry.
  const auto counting = GraphBuilder::extending(body);
  const Value number = counting->value(body.inputs()[captured]);
  std::vector<ValueId> outputs{ops::add(number, ops::full(*counting, Type(i32), 1.0, where), where).id()};
  outputs.insert(outputs.end(), body.outputs().begin(), body.outputs().end());
  const Graph counted = counting->build_ids(std::move(outputs));
  const auto emit = [&](Emitter& emitter, std::span<const Value> values) {
    std::vector<Value> operands(values.begin(), values.end());
    const Value start = ops::full(emitter, Type(i32), Literal::scalar(i32, first), where);
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(captured), start);
    const Values results =
        ops::scan(emitter, counted, operands, {length, false, captured, carries.size() + 1}, where);
    Values last;
    for (std::size_t k = 1; k < results.size(); ++k) last.push_back(results[k]);
    return last;
  };
  return call_operation("fori_loop", with_captured(step, carries), emit, where, std::span(&step.graph, 1));
}

std::int64_t fori_length(std::int64_t lower, std::int64_t upper, std::optional<std::int64_t> max_steps,
                         Where where) {
  const auto wrong = [&](const auto&... parts) {
    refuse(ErrorKind::invalid_argument, "fori_loop", detail::str(parts...), where);
  };
  using Limits = std::numeric_limits<std::int32_t>;
  for (const std::int64_t bound : {lower, upper}) {
    if (bound < Limits::min() || bound > Limits::max())
      wrong("expected bounds that i32 holds, or Arrays of i64, got ", bound);
  }
  if (max_steps && *max_steps < 0) wrong("expected max_steps >= 0, got ", *max_steps);
  const std::int64_t length = std::max<std::int64_t>(upper - lower, 0);
  return max_steps ? std::min(length, *max_steps) : length;
}

std::pair<Array, Array> fori_bounds(const Array& lower, const Array& upper, bool lower_is_number,
                                    bool upper_is_number, Where where) {
  require_arrays(std::vector{lower, upper}, "fori_loop", where, "bounds");
  for (const Array& bound : {lower, upper}) {
    if (!is_integer(bound.dtype()) || bound.ndim() != 0) {
      refuse(ErrorKind::type, "fori_loop",
             detail::str("expected bounds that are integers without axes, got ", bound.type()), where);
    }
  }
  const auto like = [where](const Array& number, const Array& other) {
    using Limits = std::numeric_limits<std::int32_t>;
    const auto value = number.dtype() == i64 ? number.item<std::int64_t>() : 0;
    if (other.dtype() == i32 && (value < Limits::min() || value > Limits::max())) {
      refuse(ErrorKind::invalid_argument, "fori_loop",
             detail::str("expected bounds that i32 holds, the dtype of the other, got ", value), where);
    }
    return astype(number, other.dtype(), where);
  };
  if (lower_is_number) return {like(lower, upper), upper};
  if (upper_is_number) return {lower, like(upper, lower)};
  if (lower.dtype() != upper.dtype()) {
    refuse(ErrorKind::type, "fori_loop",
           detail::str("expected bounds of one dtype, got ", lower.type(), " and ", upper.type()), where);
  }
  return {lower, upper};
}

}  // namespace tidu::frontend_detail
