// expression_rules.cpp - plans of operations by themselves whose elements are computed one by one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cuda/kernels/kernels.hpp"
#include "cuda/rules/compose.hpp"

namespace tidu::cuda_detail {
namespace {

Plan by_elements(const PlanRequest& request) {
  if (!is_expression(request.op)) return {};
  return plan_loop(body_of(request), request.multiprocessors);
}

// A result for each operand, its elements in their order.
Plan copies(const PlanRequest& request) {
  Plan plan;
  plan.supported = true;
  for (std::size_t i = 0; i < request.in.size(); ++i) {
    if (request.in[i].size() > 0)
      plan.steps.emplace_back(CopyStep{operand(i), result(i), request.in[i].bytes()});
  }
  return plan;
}

// Among more cases than a kernel has parameters for: a kernel for each so many writes the elements that are
// one of its own.
Plan select_n(const PlanRequest& request) {
  constexpr std::int64_t most = 64;
  const auto cases = static_cast<std::int64_t>(request.in.size()) - 1;
  if (cases <= most) return by_elements(request);
  Plan plan;
  plan.supported = true;
  const std::string memory(memory_name(request.out[0].dtype()));
  const std::string which(memory_name(request.in[0].dtype()));
  for (std::int64_t first = 0; first < cases; first += most) {
    const std::int64_t count = std::min(most, cases - first);
    std::string parameters = "const " + which + "* __restrict__ which, const u64 stride", choice;
    std::vector<Argument> arguments{argument(operand(0)), argument(request.in[0].rank() == 0 ? 0 : 1)};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string x = "x" + std::to_string(i);
      parameters += ", const " + memory + "* __restrict__ " + x;
      choice += "      case " + std::to_string(i) + ": y[at] = " + x + "[at]; break;\n";
      arguments.push_back(argument(operand(static_cast<std::size_t>(1 + first + i))));
    }
    parameters += ", " + memory + "* __restrict__ y, const i64 first, const i64 last";
    for (const Argument& more : {argument(result()), argument(first), argument(cases - 1)})
      arguments.push_back(more);
    const std::string text = elements_begin(parameters) +
                             "    i64 chosen = value(which[at * stride]);\n"
                             "    chosen = op::clamp((i64)0, chosen, last);\n"
                             "    switch (chosen - first) {\n" +
                             choice + "      default: break;\n    }\n  }\n}\n";
    plan.steps.emplace_back(launch_elements("select_n", text, request.out[0].size(), std::move(arguments),
                                            request.multiprocessors));
  }
  return plan;
}

Plan constant(const PlanRequest& request) {
  if (is_expression(request.op)) return by_elements(request);
  Plan plan;
  plan.supported = true;
  if (request.out[0].size() > 0) plan.steps.emplace_back(LiteralStep{request.op.literal("value"), result()});
  return plan;
}

constexpr DTypes numbers = dtypes::integers | dtypes::floats | dtypes::complexes;
constexpr DTypes inexact = dtypes::floats | dtypes::complexes;
constexpr DTypes bits = dtypes::booleans | dtypes::integers;
constexpr DTypes ordered = dtypes::booleans | dtypes::integers | dtypes::floats;
constexpr DTypes parts{f32, f64};

constexpr RuleEntry entries[] = {
    {"constant", constant, dtypes::all},
    {"full", by_elements, dtypes::all},
    {"iota", by_elements, numbers},
    {"neg", by_elements, numbers},
    {"abs", by_elements, numbers},
    {"sign", by_elements, numbers},
    {"floor", by_elements, dtypes::floats},
    {"ceil", by_elements, dtypes::floats},
    {"round", by_elements, dtypes::floats},
    {"exp", by_elements, inexact},
    {"exp2", by_elements, inexact},
    {"expm1", by_elements, inexact},
    {"log", by_elements, inexact},
    {"log1p", by_elements, inexact},
    {"sqrt", by_elements, inexact},
    {"rsqrt", by_elements, inexact},
    {"cbrt", by_elements, dtypes::floats},
    {"sin", by_elements, inexact},
    {"cos", by_elements, inexact},
    {"tan", by_elements, inexact},
    {"asin", by_elements, inexact},
    {"acos", by_elements, inexact},
    {"atan", by_elements, inexact},
    {"sinh", by_elements, inexact},
    {"cosh", by_elements, inexact},
    {"tanh", by_elements, inexact},
    {"asinh", by_elements, inexact},
    {"acosh", by_elements, inexact},
    {"atanh", by_elements, inexact},
    {"logistic", by_elements, inexact},
    {"erf", by_elements, dtypes::floats},
    {"erfc", by_elements, dtypes::floats},
    {"erf_inv", by_elements, dtypes::floats},
    {"lgamma", by_elements, dtypes::floats},
    {"digamma", by_elements, dtypes::floats},
    {"polygamma", by_elements, dtypes::floats},
    {"square", by_elements, numbers},
    {"reciprocal", by_elements, inexact},
    {"is_finite", by_elements, dtypes::floats},
    {"not", by_elements, bits},
    {"integer_pow", by_elements, numbers},
    {"real", by_elements, parts | dtypes::complexes},
    {"imag", by_elements, parts | dtypes::complexes},
    {"complex", by_elements, parts},
    {"conj", by_elements, parts | dtypes::complexes},
    {"add", by_elements, numbers},
    {"sub", by_elements, numbers},
    {"mul", by_elements, numbers},
    {"div", by_elements, numbers},
    {"multiply_no_nan", by_elements, inexact},
    {"divide_no_nan", by_elements, inexact},
    {"pow", by_elements, inexact},
    {"max", by_elements, ordered},
    {"min", by_elements, ordered},
    {"atan2", by_elements, dtypes::floats},
    {"rem", by_elements, dtypes::integers | dtypes::floats},
    {"nextafter", by_elements, dtypes::floats},
    {"and", by_elements, bits},
    {"or", by_elements, bits},
    {"xor", by_elements, bits},
    {"eq", by_elements, dtypes::all},
    {"ne", by_elements, dtypes::all},
    {"lt", by_elements, ordered},
    {"le", by_elements, ordered},
    {"gt", by_elements, ordered},
    {"ge", by_elements, ordered},
    {"select_n", select_n, dtypes::all},
    {"clamp", by_elements, ordered},
    {"reshape", copies, dtypes::all},
    {"squeeze", copies, dtypes::all},
    {"expand_dims", copies, dtypes::all},
    {"stop_gradient", copies, dtypes::all},
    {"device_put", copies, dtypes::all},
    {"optimization_barrier", copies, dtypes::all},
    {"broadcast_in_dim", by_elements, dtypes::all},
    {"rev", by_elements, dtypes::all},
    {"slice", by_elements, dtypes::all},
    {"pad", by_elements, dtypes::all},
    {"convert_element_type", by_elements, dtypes::all},
    {"dynamic_slice", by_elements, dtypes::all},
    {"dynamic_update_slice", by_elements, dtypes::all},
    {"take", by_elements, dtypes::all},
    {"take_along_axis", by_elements, dtypes::all},
    {"reduce_window_sum", by_elements, numbers},
    {"reduce_window_max", by_elements, dtypes::integers | dtypes::floats},
    {"random_bits", by_elements, dtypes::integers},
};

}  // namespace

RuleTable expression_rules() { return entries; }

}  // namespace tidu::cuda_detail
