// elementwise.cpp - functions of one, two and three operands, element by element.
#include "functions.hpp"
#include "tidu/frontend/nn.hpp"

namespace tidu::python {

void def_unary(nb::module_& m, const char* name, Unary f, const char* doc) {
  m.def(
      name,
      [f](Arg x) {
        Operand operand(x);
        const Array& array = operand.as_array();
        const Where where = place(array);
        return to_python(unlocked(size_of(array), [&] { return f(array, where); }));
      },
      nb::arg("x"), doc);
}
void def_binary(nb::module_& m, const char* name, Binary f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg y) {
        const Operand a(x), b(y);
        const Where where = a.where().file != nullptr ? a.where() : b.where();
        return to_python(
            unlocked(std::max(a.size(), b.size()), [&] { return f(a.like(where), b.like(where)); }));
      },
      nb::arg("x"), nb::arg("y"), doc);
}
void def_arrays(nb::module_& m, const char* name, OfArrays f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg y) {
        Operand a(x), b(y);
        const Array &left = a.as_array(), &right = b.as_array();
        const Where where = place(left, right);
        return to_python(unlocked(size_of(left) + size_of(right), [&] { return f(left, right, where); }));
      },
      nb::arg("x"), nb::arg("y"), doc);
}

namespace {

void bind_unary(nb::module_& m) {
  const std::pair<const char*, Unary> functions[] = {{"exp", exp},
                                                     {"exp2", exp2},
                                                     {"expm1", expm1},
                                                     {"log", log},
                                                     {"log1p", log1p},
                                                     {"sqrt", sqrt},
                                                     {"rsqrt", rsqrt},
                                                     {"cbrt", cbrt},
                                                     {"sin", sin},
                                                     {"cos", cos},
                                                     {"tan", tan},
                                                     {"arcsin", asin},
                                                     {"arccos", acos},
                                                     {"arctan", atan},
                                                     {"sinh", sinh},
                                                     {"asin", asin},
                                                     {"acos", acos},
                                                     {"atan", atan},
                                                     {"asinh", asinh},
                                                     {"acosh", acosh},
                                                     {"cosh", cosh},
                                                     {"tanh", tanh},
                                                     {"arcsinh", asinh},
                                                     {"arccosh", acosh},
                                                     {"arctanh", atanh},
                                                     {"atanh", atanh},
                                                     {"log2", log2},
                                                     {"log10", log10},
                                                     {"erf", erf},
                                                     {"erfc", erfc},
                                                     {"erf_inv", erf_inv},
                                                     {"lgamma", lgamma},
                                                     {"digamma", digamma},
                                                     {"reciprocal", reciprocal},
                                                     {"square", square},
                                                     {"abs", abs},
                                                     {"absolute", abs},
                                                     {"sign", sign},
                                                     {"floor", floor},
                                                     {"ceil", ceil},
                                                     {"round", round},
                                                     {"trunc", trunc},
                                                     {"isfinite", isfinite},
                                                     {"isnan", isnan},
                                                     {"isinf", isinf},
                                                     {"real", real},
                                                     {"imag", imag},
                                                     {"conj", conj},
                                                     {"logistic", logistic},
                                                     {"sigmoid", logistic},
                                                     {"softplus", softplus},
                                                     {"relu", relu},
                                                     {"logical_not", logical_not},
                                                     {"stop_gradient", stop_gradient}};
  for (const auto& [name, f] : functions) def_unary(m, name, f, "Element by element.");
  def_unary(
      m, "negative", [](const Array& x, Where where) { return -ArrayLike(x, where); },
      "-x, element by element.");
}

void bind_binary(nb::module_& m) {
  const std::pair<const char*, Binary> functions[] = {
      {"pow", pow},
      {"power", pow},
      {"maximum", maximum},
      {"minimum", minimum},
      {"atan2", atan2},
      {"arctan2", atan2},
      {"rem", rem},
      {"fmod", rem},
      {"mod", mod},
      {"remainder", mod},
      {"floor_divide", floor_divide},
      {"hypot", hypot},
      {"logaddexp", logaddexp},
      {"nextafter", nextafter},
      {"logical_and", logical_and},
      {"logical_or", logical_or},
      {"logical_xor", logical_xor},
      {"complex", complex},
      {"array_equal", array_equal},
      {"add", [](const ArrayLike& x, const ArrayLike& y) { return x + y; }},
      {"subtract", [](const ArrayLike& x, const ArrayLike& y) { return x - y; }},
      {"multiply", [](const ArrayLike& x, const ArrayLike& y) { return x * y; }},
      {"divide", [](const ArrayLike& x, const ArrayLike& y) { return x / y; }},
      {"true_divide", [](const ArrayLike& x, const ArrayLike& y) { return x / y; }},
      {"equal", [](const ArrayLike& x, const ArrayLike& y) { return x == y; }},
      {"not_equal", [](const ArrayLike& x, const ArrayLike& y) { return x != y; }},
      {"less", [](const ArrayLike& x, const ArrayLike& y) { return x < y; }},
      {"less_equal", [](const ArrayLike& x, const ArrayLike& y) { return x <= y; }},
      {"greater", [](const ArrayLike& x, const ArrayLike& y) { return x > y; }},
      {"greater_equal", [](const ArrayLike& x, const ArrayLike& y) { return x >= y; }}};
  for (const auto& [name, f] : functions) def_binary(m, name, f, "Element by element, with broadcasting.");
}

using Close = Array (*)(const ArrayLike&, const ArrayLike&, double, double, bool);
void def_close(nb::module_& m, const char* name, Close f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg y, double rtol, double atol, bool equal_nan) {
        const Operand a(x), b(y);
        return to_python(f(a.like(a.where()), b.like(b.where()), rtol, atol, equal_nan));
      },
      nb::arg("x"), nb::arg("y"), nb::arg("rtol") = 1e-5, nb::arg("atol") = 1e-8,
      nb::arg("equal_nan") = false, doc);
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  bind_unary(m);
  bind_binary(m);
  def_close(m, "isclose", isclose, "|x - y| <= atol + rtol |y|, element by element.");
  def_close(m, "allclose", allclose, "Is isclose true everywhere?");
  m.def(
      "polygamma",
      [](std::int64_t n, Arg x) {
        Operand operand(x);
        return to_python(polygamma(n, operand.as_array(), operand.where()));
      },
      nb::arg("n"), nb::arg("x"), "The n-th derivative of digamma.");
  m.def(
      "integer_pow",
      [](Arg x, std::int64_t y) {
        Operand operand(x);
        return to_python(integer_pow(operand.as_array(), y, operand.where()));
      },
      nb::arg("x"), nb::arg("y"), "x to an integer power.");
  m.def(
      "where",
      [](Arg condition, Arg x, Arg y) {
        Operand c(condition), a(x), b(y);
        const Array& mask = c.as_array();
        const Where found = c.where().file != nullptr   ? c.where()
                            : a.where().file != nullptr ? a.where()
                                                        : b.where();
        return to_python(unlocked(std::max(size_of(mask), std::max(a.size(), b.size())),
                                  [&] { return tidu::where(mask, a.like(found), b.like(found)); }));
      },
      nb::arg("condition"), nb::arg("x"), nb::arg("y"), "x where the condition holds, else y.");
  m.def(
      "clip",
      [](Arg x, Arg lo, Arg hi) {
        Operand operand(x);
        const Array& array = operand.as_array();
        const Where found = operand.where();
        if (lo.object.is_none() && hi.object.is_none()) return to_python(array);
        if (lo.object.is_none()) return to_python(minimum(ArrayLike(array, found), Operand(hi).like(found)));
        if (hi.object.is_none()) return to_python(maximum(ArrayLike(array, found), Operand(lo).like(found)));
        const Operand low(lo), high(hi);
        return to_python(clip(array, low.like(found), high.like(found)));
      },
      nb::arg("x"), nb::arg("min").none() = nb::none(), nb::arg("max").none() = nb::none(),
      "x between min and max; no gradient passes at or beyond a bound.");
  m.def(
      "nan_to_num",
      [](Arg x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
        Operand operand(x);
        return to_python(nan_to_num(operand.as_array(), nan, posinf, neginf, operand.where()));
      },
      nb::arg("x"), nb::arg("nan") = 0.0, nb::arg("posinf") = nb::none(), nb::arg("neginf") = nb::none(),
      "x with numbers in the places of NaN and of the infinities.");
  m.def(
      "promote_types",
      [](Arg a, Arg b) { return dtype_object(promote(to_dtype(a.object), to_dtype(b.object))); },
      nb::arg("a"), nb::arg("b"), "The dtype of an operation on operands of these dtypes.");
}

void bind_nn(nb::module_& m) {
  using Like = Array (*)(const ArrayLike&);
  const std::pair<const char*, Like> functions[] = {
      {"silu", silu}, {"swish", silu}, {"selu", selu}, {"log_sigmoid", log_sigmoid}, {"relu6", relu6}};
  for (const auto& [name, f] : functions) {
    m.def(
        name,
        [f = f](Arg x) {
          const Operand operand(x);
          return to_python(f(operand.like(operand.where())));
        },
        nb::arg("x"), "Element by element.");
  }
  def_unary(m, "relu", relu, "max(x, 0), with derivative 0 at 0.");
  def_unary(m, "sigmoid", logistic, "1 / (1 + exp(-x)).");
  def_unary(m, "softplus", softplus, "log(1 + exp(x)), without overflow.");
  m.def(
      "gelu",
      [](Arg x, bool approximate) {
        const Operand operand(x);
        return to_python(gelu(operand.like(operand.where()), approximate));
      },
      nb::arg("x"), nb::arg("approximate") = true,
      "x times the probability that a normal number is less than x.");
  m.def(
      "leaky_relu",
      [](Arg x, double slope) {
        const Operand operand(x);
        return to_python(leaky_relu(operand.like(operand.where()), slope));
      },
      nb::arg("x"), nb::arg("negative_slope") = 0.01, "x where it is 0 or more, else slope x.");
  m.def(
      "elu",
      [](Arg x, double alpha) {
        const Operand operand(x);
        return to_python(elu(operand.like(operand.where()), alpha));
      },
      nb::arg("x"), nb::arg("alpha") = 1.0, "x where it is above 0, else alpha (exp(x) - 1).");
  m.def(
      "standardize",
      [](Arg x, Arg axis, double epsilon) {
        const Operand operand(x);
        return to_python(standardize(operand.like(operand.where()), to_axes(axis.object), epsilon));
      },
      nb::arg("x"), nb::arg("axis").none() = -1, nb::arg("epsilon") = 1e-5,
      "(x - mean) / sqrt(variance + epsilon) over the axes.");
  def_arrays(m, "softmax_cross_entropy_with_integer_labels", softmax_cross_entropy_with_integer_labels,
             "-log_softmax(x)[y] along the last axis, without overflow.");
}

}  // namespace tidu::python
