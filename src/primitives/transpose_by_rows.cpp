// transpose_by_rows.cpp - see transpose_by_rows.hpp.
#include "primitives/transpose_by_rows.hpp"

#include <numeric>

#include "primitives/inner_graphs.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

Value summed(Value x) {
  Ints axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  return axes.empty() ? x : ops::reduce_sum(x, axes);
}

// Re(conj(a) b), summed over all elements.
Value inner_product(Value a, Value b) {
  if (!is_complex(a.dtype())) return summed(ops::mul(a, b));
  const Value re_a = ops::real(a), im_a = ops::imag(a);
  const Value re = ops::mul(re_a, ops::real(b));
  return summed(ops::add(re, ops::mul(im_a, ops::imag(b))));
}

// The unit vector of that type at a flat position over all elements; for a complex type 1 or i there.
Value unit_vector(Emitter& emitter, Type type, Value place, bool imaginary) {
  const Shape flat{type.size()};
  const Value places = ops::iota(emitter, {DType::i64, flat}, 0);
  const Value at = ops::eq(places, ops::broadcast_in_dim(place, flat, {}));
  Value unit = ops::convert_element_type(at, real_dtype(type.dtype()));
  if (is_complex(type.dtype())) {
    const Value zero = zeros(emitter, unit.type());
    unit = imaginary ? ops::complex(zero, unit) : ops::complex(unit, zero);
  }
  return ops::reshape(unit, type.shape());
}

class RowsBuilder {
 public:
  RowsBuilder(const Graph& graph, std::size_t num_residuals) : graph_(graph), num_residuals_(num_residuals) {}

  Graph make(const std::string& name) const {
    GraphBuilder builder(name, graph_.primitives());
    const std::vector<Value> operands = inputs(builder);
    std::vector<Value> results;
    for (std::size_t j = num_residuals_; j < graph_.inputs().size(); ++j)
      results.push_back(result(builder, j, operands));
    return builder.build(results);
  }

 private:
  std::vector<Value> inputs(GraphBuilder& builder) const {
    std::vector<Value> values;
    for (std::size_t i = 0; i < num_residuals_; ++i)
      values.push_back(builder.input(detail::str("residual.", i), graph_.type(graph_.inputs()[i])));
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k)
      values.push_back(builder.input(detail::str("tangent.", k), graph_.type(graph_.outputs()[k])));
    return values;
  }

  // The part of <graph(r, e), t> in which e is that of input j alone.
  Value product(Emitter& emitter, std::size_t j, std::span<const Value> operands, Value place,
                bool imaginary) const {
    std::vector<Value> given(operands.begin(),
                             operands.begin() + static_cast<std::ptrdiff_t>(num_residuals_));
    for (std::size_t i = num_residuals_; i < graph_.inputs().size(); ++i) {
      const Type type = graph_.type(graph_.inputs()[i]);
      given.push_back(i == j ? unit_vector(emitter, type, place, imaginary) : zeros(emitter, type));
    }
    const std::vector<Value> values = inline_graph(emitter, graph_, given);
    const DType dtype = real_dtype(graph_.type(graph_.inputs()[j]).dtype());
    std::optional<Value> sum;
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      Value part = inner_product(values[graph_.outputs()[k]], operands[num_residuals_ + k]);
      if (part.dtype() != dtype) part = ops::convert_element_type(part, dtype);
      sum = sum ? ops::add(*sum, part) : part;
    }
    return sum ? *sum : zeros(emitter, Type(dtype));
  }

  Value result(GraphBuilder& builder, std::size_t j, const std::vector<Value>& operands) const {
    const Type type = graph_.type(graph_.inputs()[j]);
    if (type.size() == 0) return zeros(builder, type);
    GraphBuilder step(graph_.name() + ".row", graph_.primitives());
    const std::vector<Value> formal = inputs(step);
    const Value place = step.input("place", {DType::i64, {}});
    std::vector<Value> products{product(step, j, formal, place, false)};
    if (is_complex(type.dtype())) products.push_back(product(step, j, formal, place, true));
    std::vector<Value> given = operands;
    given.push_back(ops::iota(builder, {DType::i64, {type.size()}}, 0));
    const Values rows = ops::scan(builder, step.build(products), given,
                                  {.length = type.size(), .num_consts = operands.size()});
    return ops::reshape(is_complex(type.dtype()) ? ops::complex(rows[0], rows[1]) : rows[0], type.shape());
  }

  const Graph& graph_;
  std::size_t num_residuals_;
};

}  // namespace

Graph transposed_by_rows(const Graph& graph, std::size_t num_residuals, const std::string& name) {
  return RowsBuilder(graph, num_residuals).make(name);
}

}  // namespace tidu::prim
