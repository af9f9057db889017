// reductions.cpp - reductions, cumulative functions and sorting.
#include "functions.hpp"

namespace tidu::python {
namespace {

using Reduction = Array (*)(const Array&, const Axes&, bool, Where);
void def_reduction(nb::module_& m, const char* name, Reduction f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg axis, bool keepdims) {
        Operand operand(x);
        const Array& array = operand.as_array();
        const Axes axes = to_axes(axis.object);
        const Where where = place(array);
        return to_python(unlocked(size_of(array), [&] { return f(array, axes, keepdims, where); }));
      },
      nb::arg("x"), nb::arg("axis").none() = nb::none(), nb::arg("keepdims") = false, doc);
}
using Spread = Array (*)(const Array&, const Axes&, std::int64_t, bool, Where);
void def_spread(nb::module_& m, const char* name, Spread f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg axis, std::int64_t ddof, bool keepdims) {
        Operand operand(x);
        const Array& array = operand.as_array();
        const Axes axes = to_axes(axis.object);
        return to_python(f(array, axes, ddof, keepdims, place(array)));
      },
      nb::arg("x"), nb::arg("axis").none() = nb::none(), nb::arg("ddof") = 0, nb::arg("keepdims") = false,
      doc);
}
using OverAxes = Array (*)(const Array&, const Axes&, Where);
void def_over_axes(nb::module_& m, const char* name, OverAxes f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg axis) {
        Operand operand(x);
        const Array& array = operand.as_array();
        return to_python(f(array, to_axes(axis.object), place(array)));
      },
      nb::arg("x"), nb::arg("axis").none() = -1, doc);
}
using Position = Array (*)(const Array&, std::optional<std::int64_t>, Where);
void def_position(nb::module_& m, const char* name, Position f, const char* doc) {
  m.def(
      name,
      [f](Arg x, std::optional<std::int64_t> axis) {
        Operand operand(x);
        const Array& array = operand.as_array();
        return to_python(f(array, axis, place(array)));
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), doc);
}
using Cumulative = Array (*)(const Array&, std::int64_t, bool, Where);
void def_cumulative(nb::module_& m, const char* name, Cumulative f, const char* doc) {
  m.def(
      name,
      [f](Arg x, std::optional<std::int64_t> axis, bool reverse) {
        Operand operand(x);
        const Array& array = operand.as_array();
        const Where where = place(array);
        return to_python(axis ? f(array, *axis, reverse, where)
                              : f(flatten(array, where), 0, reverse, where));
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("reverse") = false, doc);
}
using AlongAxis = Array (*)(const Array&, std::int64_t, Where);
void def_along_axis(nb::module_& m, const char* name, AlongAxis f, const char* doc) {
  m.def(
      name,
      [f](Arg x, std::optional<std::int64_t> axis) {
        Operand operand(x);
        const Array& array = operand.as_array();
        const Where where = place(array);
        return to_python(unlocked(size_of(array), [&] {
          return axis ? f(array, *axis, where) : f(flatten(array, where), 0, where);
        }));
      },
      nb::arg("x"), nb::arg("axis") = -1, doc);
}

}  // namespace

void bind_reductions(nb::module_& m) {
  const std::pair<const char*, Reduction> reductions[] = {{"sum", sum},
                                                          {"prod", prod},
                                                          {"max", max},
                                                          {"min", min},
                                                          {"amax", max},
                                                          {"amin", min},
                                                          {"all", all},
                                                          {"any", any},
                                                          {"mean", mean},
                                                          {"count_nonzero", count_nonzero},
                                                          {"logsumexp", logsumexp}};
  for (const auto& [name, f] : reductions) def_reduction(m, name, f, "Over some axes, or over all.");
  def_spread(m, "var", var, "The mean squared distance from the mean; divided by count - ddof.");
  def_spread(m, "std", stddev, "The square root of var.");
  def_over_axes(m, "softmax", softmax, "exp(x) / sum(exp(x)) over the axes, without overflow.");
  def_over_axes(m, "log_softmax", log_softmax, "The logarithm of softmax.");
  def_position(m, "argmax", argmax, "Position (int32) of the greatest element, the first of equal ones.");
  def_position(m, "argmin", argmin, "Position (int32) of the least element, the first of equal ones.");
  def_cumulative(m, "cumsum", cumsum, "Cumulative sum along an axis, each element included.");
  def_cumulative(m, "cumprod", cumprod, "Cumulative product along an axis, each element included.");
  def_cumulative(m, "cummax", cummax, "Cumulative maximum along an axis, each element included.");
  def_cumulative(m, "cummin", cummin, "Cumulative minimum along an axis, each element included.");
  def_cumulative(m, "cumlogsumexp", cumlogsumexp,
                 "Cumulative logsumexp along an axis, each element included.");
  def_along_axis(m, "sort", sort, "In ascending order along the axis.");
  def_along_axis(m, "argsort", argsort, "Positions (int32) that sort along the axis.");
  m.def(
      "sort_key_val",
      [](Arg keys, Arg values, std::int64_t axis) {
        Operand k(keys), v(values);
        auto [sorted, moved] =
            sort_key_val(k.as_array(), v.as_array(), axis, place(k.as_array(), v.as_array()));
        return nb::make_tuple(to_python(sorted), to_python(moved));
      },
      nb::arg("keys"), nb::arg("values"), nb::arg("axis") = -1,
      "Keys ascending, and the values moved along.");
  m.def(
      "top_k",
      [](Arg x, std::int64_t k, std::int64_t axis) {
        Operand operand(x);
        auto [values, positions] = top_k(operand.as_array(), k, axis, operand.where());
        return nb::make_tuple(to_python(values), to_python(positions));
      },
      nb::arg("x"), nb::arg("k"), nb::arg("axis") = -1, "The k greatest along an axis, and their positions.");
  m.def(
      "median",
      [](Arg x, std::optional<std::int64_t> axis, bool keepdims) {
        const Operand operand(x);
        return to_python(median(operand.like(operand.where()), axis, keepdims));
      },
      nb::arg("x"), nb::arg("axis") = nb::none(), nb::arg("keepdims") = false,
      "The middle one of the sorted elements, or the mean of the two in the middle.");
  m.def(
      "searchsorted",
      [](Arg sorted, Arg values, const std::string& side) {
        Operand s(sorted), v(values);
        const Array& array = s.as_array();
        const Array& wanted = v.as_array();
        return to_python(searchsorted(array, ArrayLike(wanted), side, place(array, wanted)));
      },
      nb::arg("sorted"), nb::arg("values"), nb::arg("side") = "left",
      "The positions at which values would be inserted into a sorted Array so that it stays sorted.");
}

}  // namespace tidu::python
