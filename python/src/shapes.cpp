// shapes.cpp - layout functions, matmuls and contractions.
#include "functions.hpp"

namespace tidu::python {
namespace {

void bind_axes(nb::module_& m) {
  m.def(
      "reshape",
      [](Arg x, Arg shape) {
        Operand operand(x);
        return to_python(reshape(operand.as_array(), to_shape(shape.object), operand.where()));
      },
      nb::arg("x"), nb::arg("shape"), "The same elements in another shape, of which one extent may be -1.");
  def_unary(m, "ravel", flatten, "The elements in one axis.");
  def_unary(m, "flatten", flatten, "The elements in one axis.");
  m.def(
      "transpose",
      [](Arg x, Arg axes) {
        Operand operand(x);
        return to_python(transpose(operand.as_array(), to_axes(axes.object), operand.where()));
      },
      nb::arg("x"), nb::arg("axes").none() = nb::none(), "Axes permuted, or in reverse order.");
  m.def(
      "swapaxes",
      [](Arg x, std::int64_t a, std::int64_t b) {
        Operand operand(x);
        return to_python(swapaxes(operand.as_array(), a, b, operand.where()));
      },
      nb::arg("x"), nb::arg("axis1"), nb::arg("axis2"), "With two axes exchanged.");
  m.def(
      "moveaxis",
      [](Arg x, std::int64_t from, std::int64_t to) {
        Operand operand(x);
        return to_python(moveaxis(operand.as_array(), from, to, operand.where()));
      },
      nb::arg("x"), nb::arg("source"), nb::arg("destination"), "With one axis at another place.");
  m.def(
      "expand_dims",
      [](Arg x, Arg axis) {
        Operand operand(x);
        return to_python(expand_dims(operand.as_array(), to_axes(axis.object), operand.where()));
      },
      nb::arg("x"), nb::arg("axis"), "With new axes of extent 1.");
  m.def(
      "squeeze",
      [](Arg x, Arg axis) {
        Operand operand(x);
        return to_python(squeeze(operand.as_array(), to_axes(axis.object), operand.where()));
      },
      nb::arg("x"), nb::arg("axis").none() = nb::none(), "Without axes of extent 1.");
  m.def(
      "broadcast_to",
      [](Arg x, Arg shape) {
        Operand operand(x);
        return to_python(broadcast_to(operand.as_array(), to_shape(shape.object), operand.where()));
      },
      nb::arg("x"), nb::arg("shape"), "Repeated along axes, as NumPy broadcasts.");
  m.def(
      "flip",
      [](Arg x, Arg axis) {
        Operand operand(x);
        return to_python(flip(operand.as_array(), to_axes(axis.object), operand.where()));
      },
      nb::arg("x"), nb::arg("axis").none() = nb::none(), "In reverse order along axes, or along all.");
  m.def(
      "roll",
      [](Arg x, std::int64_t shift, std::optional<std::int64_t> axis) {
        Operand operand(x);
        const Array& array = operand.as_array();
        return to_python(axis ? roll(array, shift, *axis, place(array)) : roll(array, shift, place(array)));
      },
      nb::arg("x"), nb::arg("shift"), nb::arg("axis") = nb::none(),
      "Elements moved along an axis, around its end.");
  m.def(
      "repeat",
      [](Arg x, std::int64_t count, std::optional<std::int64_t> axis) {
        Operand operand(x);
        const Array& array = operand.as_array();
        return to_python(axis ? repeat(array, count, *axis, place(array))
                              : repeat(array, count, place(array)));
      },
      nb::arg("x"), nb::arg("repeats"), nb::arg("axis") = nb::none(), "Each element several times.");
  m.def(
      "tile",
      [](Arg x, Arg counts) {
        Operand operand(x);
        return to_python(tile(operand.as_array(), to_shape(counts.object), operand.where()));
      },
      nb::arg("x"), nb::arg("reps"), "The whole of it several times along axes.");
  def_unary(m, "diagonal", diagonal, "The diagonal of the last two axes.");
}

using Joining = Array (*)(std::span<const Array>, Where);
void def_joining(nb::module_& m, const char* name, Joining f, const char* doc) {
  m.def(
      name,
      [f](Arg parts) {
        const std::vector<Array> arrays = to_arrays(parts.object);
        return to_python(f(arrays, place(std::span(arrays))));
      },
      nb::arg("arrays"), doc);
}

void bind_joining(nb::module_& m) {
  m.def(
      "concatenate",
      [](Arg parts, std::optional<std::int64_t> axis) {
        std::vector<Array> arrays = to_arrays(parts.object);
        const Where where = place(std::span(std::as_const(arrays)));
        if (!axis)
          for (Array& array : arrays) array = flatten(array, where);
        return to_python(unlocked([&] { return concatenate(arrays, axis.value_or(0), where); }));
      },
      nb::arg("arrays"), nb::arg("axis") = 0, "Along an axis that all have.");
  m.def(
      "stack",
      [](Arg parts, std::int64_t axis) {
        const std::vector<Array> arrays = to_arrays(parts.object);
        return to_python(stack(arrays, axis, place(std::span(arrays))));
      },
      nb::arg("arrays"), nb::arg("axis") = 0, "Along a new axis.");
  def_joining(
      m, "hstack", [](std::span<const Array> a, Where where) { return hstack(a, where); },
      "Side by side: along axis 1, of vectors along the only one.");
  def_joining(
      m, "vstack", [](std::span<const Array> a, Where where) { return vstack(a, where); },
      "One above the other: along axis 0, where vectors are rows.");
  m.def("_meshgrid", [](Arg axes, const std::string& indexing) {
    const std::vector<Array> arrays = to_arrays(axes.object);
    return to_list(meshgrid(arrays, indexing, place(std::span(arrays))));
  });
  m.def(
      "split",
      [](Arg x, std::int64_t parts, std::int64_t axis) {
        Operand operand(x);
        return to_list(split(operand.as_array(), parts, axis, operand.where()));
      },
      nb::arg("x"), nb::arg("sections"), nb::arg("axis") = 0, "Equal parts along an axis.");
  m.def("_pad", [](Arg x, const std::vector<std::vector<std::int64_t>>& widths, Arg value) {
    Operand operand(x);
    const Operand fill(value);
    std::vector<PadWidth> list;
    for (const auto& w : widths) list.push_back({w.at(0), w.at(1), w.size() > 2 ? w[2] : 0});
    const Where where = operand.where();
    return to_python(pad(operand.as_array(), list, fill.like(where), where));
  });
}

void bind_positions(nb::module_& m) {
  m.def(
      "take",
      [](Arg x, Arg indices, std::optional<std::int64_t> axis) {
        Operand operand(x), i(indices);
        const Array& array = operand.as_array();
        const Where where = place(array);
        return to_python(axis ? take(array, i.as_array(), *axis, where)
                              : take(flatten(array, where), i.as_array(), 0, where));
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("axis") = nb::none(), "The sub-arrays at these positions.");
  m.def(
      "take_along_axis",
      [](Arg x, Arg indices, std::int64_t axis) {
        Operand operand(x), i(indices);
        return to_python(take_along_axis(operand.as_array(), i.as_array(), axis, operand.where()));
      },
      nb::arg("x"), nb::arg("indices"), nb::arg("axis"),
      "Along an axis the elements at indices of x's rank.");
  m.def(
      "dynamic_slice",
      [](Arg x, Arg starts, Arg sizes) {
        Operand operand(x);
        const std::vector<Array> at = to_arrays(starts.object);
        return to_python(dynamic_slice(operand.as_array(), at, to_shape(sizes.object), operand.where()));
      },
      nb::arg("x"), nb::arg("starts"), nb::arg("sizes"), "x[start : start + size], where starts are data.");
  m.def(
      "dynamic_update_slice",
      [](Arg x, Arg update, Arg starts) {
        Operand operand(x), u(update);
        const std::vector<Array> at = to_arrays(starts.object);
        const Where where = place(operand.as_array(), u.as_array());
        return to_python(dynamic_update_slice(operand.as_array(), u.as_array(), at, where));
      },
      nb::arg("x"), nb::arg("update"), nb::arg("starts"), "x with an update at x[start : start + extent].");
  m.def(
      "tril",
      [](Arg x, std::int64_t k) {
        Operand operand(x);
        return to_python(tril(operand.as_array(), k, operand.where()));
      },
      nb::arg("x"), nb::arg("k") = 0, "With zeros above a diagonal.");
  m.def(
      "triu",
      [](Arg x, std::int64_t k) {
        Operand operand(x);
        return to_python(triu(operand.as_array(), k, operand.where()));
      },
      nb::arg("x"), nb::arg("k") = 0, "With zeros below a diagonal.");
  m.def(
      "diag",
      [](Arg x, std::int64_t k) {
        const Operand operand(x);
        return to_python(diag(operand.like(operand.where()), k));
      },
      nb::arg("x"), nb::arg("k") = 0, "A matrix with this diagonal, or the diagonal of a matrix.");
  m.def(
      "diff",
      [](Arg x, std::int64_t n, std::int64_t axis) {
        const Operand operand(x);
        return to_python(diff(operand.like(operand.where()), n, axis));
      },
      nb::arg("x"), nb::arg("n") = 1, nb::arg("axis") = -1, "The differences of neighbours along an axis.");
}

void bind_contractions(nb::module_& m) {
  def_arrays(m, "matmul", matmul, "[k] x [k], [m,k] x [k], [..., m,k] x [..., k,n].");
  def_arrays(m, "dot", dot, "The sum over the last axis of x and the last but one of y.");
  def_arrays(m, "outer", outer, "[m] x [n] -> [m,n].");
  def_binary(m, "inner", inner, "The sum over the last axes of both.");
  def_binary(m, "kron", kron, "Kronecker's product.");
  m.def(
      "cross",
      [](Arg x, Arg y, std::int64_t axis) {
        const Operand a(x), b(y);
        const Where where = a.where().file != nullptr ? a.where() : b.where();
        return to_python(cross(a.like(where), b.like(where), axis));
      },
      nb::arg("x"), nb::arg("y"), nb::arg("axis") = -1, "The vector product along an axis of extent 3.");
  m.def(
      "tensordot",
      [](Arg x, Arg y, Arg axes) {
        Operand a(x), b(y);
        const Array &left = a.as_array(), &right = b.as_array();
        const Where where = place(left, right);
        if (PyLong_Check(axes.object.ptr()))
          return to_python(tensordot(left, right, nb::cast<std::int64_t>(axes.object), where));
        const nb::object first = axes.object[nb::int_(0)], second = axes.object[nb::int_(1)];
        return to_python(tensordot(left, right, std::pair(to_axes(first), to_axes(second)), where));
      },
      nb::arg("x"), nb::arg("y"), nb::arg("axes") = 2, "The sum over pairs of axes.");
  m.def(
      "einsum",
      [](const std::string& spec, nb::args operands) {
        const std::vector<Array> arrays = to_arrays(operands);
        const Where where = place(std::span(arrays));
        return to_python(unlocked([&] { return einsum(spec, arrays, where); }));
      },
      nb::arg("spec"), nb::arg("operands"), "Einstein's summation, as NumPy's.");
}

}  // namespace

void bind_shapes(nb::module_& m) {
  bind_axes(m);
  bind_joining(m);
  bind_positions(m);
  bind_contractions(m);
}

}  // namespace tidu::python
