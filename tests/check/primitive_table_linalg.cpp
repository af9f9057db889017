// primitive_table_linalg.cpp - the rows of linear algebra; see primitive_table.hpp.
#include <array>

#include "primitive_table.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::test {
namespace {

const std::vector<DType> reals{f64, f32}, reals_and_complexes{f64, f32, c128, c64}, complexes{c128, c64};

// x xᴴ plus three times the identity: positive definite, and never symmetric to the last bit only by
// chance.
Value definite(Value x) {
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  const Ints batch = last == 1 ? Ints{} : Ints{0};
  const Value other = is_complex(x.dtype()) ? ops::conj(x) : x;
  const Value product = ops::dot_general(x, other, {{last}, {last}, batch, batch});
  const Type numbers(i32, x.shape());
  const Value on_diagonal =
      ops::eq(ops::iota(*x.emitter(), numbers, last), ops::iota(*x.emitter(), numbers, last - 1));
  return product + ops::convert_element_type(on_diagonal, x.dtype()) * ops::full_like(x, 3.0);
}

// u diag(exp s) v, in which the phases of vectors cancel.
Value recomposed(Value u, Value s, Value v) {
  const Value weights = ops::convert_element_type(ops::exp(s), u.dtype());
  return ops::matmul(u * ops::broadcast_in_dim(weights, u.shape(), {1}), v);
}

}  // namespace

void add_linalg(std::vector<Row>& t) {
  const Domain apart = between(0.5, 2);
  Row factor{"cholesky", reals_and_complexes, {{{3, 3}}}};
  factor.use = [](const Op& op, std::span<const Value> x) { return emit(op, std::array{definite(x[0])}); };
  t.push_back(factor);
  factor.operands = {{{2, 2, 2}}};
  t.push_back(noted(factor, "batched"));
  const auto solve = [&](std::string_view note, const Shape& a, const Shape& b,
                         const std::array<bool, 5>& how) {
    t.push_back(noted({"triangular_solve",
                       reals_and_complexes,
                       {{a, apart}, {b}},
                       [how](DType, const PrimitiveSet&) {
                         return Attributes{{"left_side", how[0]},
                                           {"lower", how[1]},
                                           {"transpose_a", how[2]},
                                           {"conjugate_a", how[3]},
                                           {"unit_diagonal", how[4]}};
                       }},
                      note));
  };
  solve("left, lower", {3, 3}, {3, 2}, {true, true, false, false, false});
  solve("left, upper, adjoint, unit", {2, 2}, {2, 1}, {true, false, true, true, true});
  solve("right, lower, conjugate", {2, 2}, {3, 2}, {false, true, false, true, false});
  solve("right, upper, transpose", {2, 2}, {1, 2}, {false, false, true, false, false});
  solve("batched", {2, 2, 2}, {2, 2, 1}, {true, true, true, false, true});
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}, Shape{2, 2, 2}}) {
    const std::string_view note = shape.size() > 2      ? "batched"
                                  : shape[0] > shape[1] ? "tall"
                                  : shape[0] < shape[1] ? "wide"
                                                        : "square";
    t.push_back(noted({"lu", reals_and_complexes, {{shape}}}, note));
    t.push_back(noted({"qr", reals_and_complexes, {{shape}}}, note));
    Row values{"svd", reals, {{shape}}};
    values.tolerance = 100;
    t.push_back(noted(values, note));
    if (shape.size() > 2) continue;
    values.dtypes = complexes;
    values.use = [](const Op& op, std::span<const Value> x) -> Values {
      const Values usv = emit(op, x);
      return {usv[1], recomposed(usv[0], usv[1], usv[2])};
    };
    t.push_back(noted(values, note));
  }
  Row spectrum{"eigh", reals, {{{3, 3}}}};
  spectrum.tolerance = 100;
  t.push_back(spectrum);
  spectrum.operands = {{{2, 2, 2}}};
  t.push_back(noted(spectrum, "batched"));
  spectrum.operands = {{{3, 3}}};
  spectrum.dtypes = complexes;
  spectrum.use = [](const Op& op, std::span<const Value> x) -> Values {
    const Values vw = emit(op, x);
    return {vw[1], recomposed(vw[0], vw[1], ops::conj(ops::transpose(vw[0], {1, 0})))};
  };
  t.push_back(spectrum);
}

}  // namespace tidu::test
