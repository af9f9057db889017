// linalg.cpp - linear algebra, convolutions and pools.
#include "tidu/frontend/linalg.hpp"
#include "functions.hpp"
#include "tidu/frontend/windows.hpp"

namespace tidu::python {
namespace {

WindowPadding to_padding(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) return WindowPadding(nb::cast<std::string>(object).c_str());
  if (PyLong_Check(object.ptr())) return WindowPadding(nb::cast<int>(object));
  IntLists list;
  for (const nb::handle item : nb::iter(object)) list.push_back(to_shape(item));
  return WindowPadding(std::move(list));
}
Ints ints_or_none(nb::handle object, std::size_t count = 0) {
  if (object.is_none()) return {};
  Ints list = to_shape(object);
  if (list.size() == 1 && count > 1) list.assign(count, list[0]);
  return list;
}

using Pool = Array (*)(const Array&, const Ints&, const Ints&, const WindowPadding&, Where);
void def_pool(nb::module_& m, const char* name, Pool f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg window, Arg strides, Arg padding) {
        Operand operand(x);
        return to_python(f(operand.as_array(), ints_or_none(window.object, 2),
                           ints_or_none(strides.object, 2), to_padding(padding.object), operand.where()));
      },
      nb::arg("x"), nb::arg("window"), nb::arg("strides").none() = nb::none(), nb::arg("padding") = "VALID",
      doc);
}

}  // namespace

void bind_linalg(nb::module_& m) {
  def_unary(m, "cholesky", linalg::cholesky, "The lower triangular L with x = L L^H.");
  def_unary(m, "inv", linalg::inv, "The inverse.");
  def_unary(m, "det", linalg::det, "The determinant.");
  def_arrays(m, "solve", linalg::solve, "x with a x = b.");
  m.def(
      "lu",
      [](Arg x) {
        Operand operand(x);
        auto [factors, pivots, permutation] = linalg::lu(operand.as_array(), operand.where());
        return nb::make_tuple(to_python(factors), to_python(pivots), to_python(permutation));
      },
      nb::arg("x"), "(factors, pivots, permutation) with x[permutation] = L U.");
  m.def(
      "qr",
      [](Arg x) {
        Operand operand(x);
        auto [q, r] = linalg::qr(operand.as_array(), operand.where());
        return nb::make_tuple(to_python(q), to_python(r));
      },
      nb::arg("x"), "(Q, R).");
  m.def(
      "eigh",
      [](Arg x) {
        Operand operand(x);
        auto [values, vectors] = linalg::eigh(operand.as_array(), operand.where());
        return nb::make_tuple(to_python(values), to_python(vectors));
      },
      nb::arg("x"), "(eigenvalues, eigenvectors) of a Hermitian matrix, ascending.");
  m.def(
      "svd",
      [](Arg x) {
        Operand operand(x);
        auto [u, s, vh] = linalg::svd(operand.as_array(), operand.where());
        return nb::make_tuple(to_python(u), to_python(s), to_python(vh));
      },
      nb::arg("x"), "(U, S, V^H), of the smaller extent.");
  m.def(
      "slogdet",
      [](Arg x) {
        Operand operand(x);
        auto [sign, logarithm] = linalg::slogdet(operand.as_array(), operand.where());
        return nb::make_tuple(to_python(sign), to_python(logarithm));
      },
      nb::arg("x"), "(sign, log |det|).");
  m.def(
      "solve_triangular",
      [](Arg a, Arg b, bool lower, bool transpose, bool conjugate, bool unit, bool left) {
        Operand x(a), y(b);
        return to_python(linalg::solve_triangular(x.as_array(), y.as_array(),
                                                  {lower, transpose, conjugate, unit, left},
                                                  place(x.as_array(), y.as_array())));
      },
      nb::arg("a"), nb::arg("b"), nb::arg("lower") = false, nb::arg("transpose") = false,
      nb::arg("conjugate") = false, nb::arg("unit_diagonal") = false, nb::arg("left_side") = true,
      "x with a x = b, of a triangle of a.");
  m.def(
      "cho_solve",
      [](Arg factor, Arg b, bool lower) {
        Operand x(factor), y(b);
        return to_python(
            linalg::cho_solve(x.as_array(), y.as_array(), lower, place(x.as_array(), y.as_array())));
      },
      nb::arg("factor"), nb::arg("b"), nb::arg("lower") = true, "x with (L L^H) x = b.");
  m.def(
      "norm",
      [](Arg x, Arg axis, bool keepdims) {
        Operand operand(x);
        return to_python(linalg::norm(operand.as_array(), to_axes(axis.object), keepdims, operand.where()));
      },
      nb::arg("x"), nb::arg("axis").none() = nb::none(), nb::arg("keepdims") = false,
      "The square root of the sum of squared magnitudes.");
  m.def(
      "vector_norm",
      [](Arg x, double ord, Arg axis, bool keepdims) {
        Operand operand(x);
        return to_python(
            linalg::vector_norm(operand.as_array(), ord, to_axes(axis.object), keepdims, operand.where()));
      },
      nb::arg("x"), nb::arg("ord") = 2.0, nb::arg("axis").none() = nb::none(), nb::arg("keepdims") = false,
      "(sum |x|^ord)^(1/ord).");
  m.def(
      "conv2d",
      [](Arg x, Arg kernel, Arg strides, Arg padding, Arg dilation, std::int64_t groups) {
        Operand a(x), k(kernel);
        const Array &array = a.as_array(), &weights = k.as_array();
        const Where where = place(array, weights);
        const Ints steps = ints_or_none(strides.object, 2), spread = ints_or_none(dilation.object, 2);
        const WindowPadding around = to_padding(padding.object);
        return to_python(unlocked(
            size_of(array), [&] { return conv2d(array, weights, steps, around, spread, groups, where); }));
      },
      nb::arg("x"), nb::arg("kernel"), nb::arg("strides").none() = nb::none(), nb::arg("padding") = "VALID",
      nb::arg("dilation").none() = nb::none(), nb::arg("groups") = 1,
      "x [batch, features, height, width] by kernel [results, features / groups, height, width].");
  def_pool(m, "max_pool", max_pool, "The greatest of each window of x [batch, features, spatial...].");
  def_pool(m, "avg_pool", avg_pool, "The mean of each window of x [batch, features, spatial...].");
}

}  // namespace tidu::python
