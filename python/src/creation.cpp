// creation.cpp - Arrays from numbers, and random ones from keys.
#include "tidu/frontend/creation.hpp"
#include "functions.hpp"
#include "tidu/frontend/random.hpp"

namespace tidu::python {
namespace {

DType dtype_or(nb::handle object, DType otherwise) { return to_optional_dtype(object).value_or(otherwise); }

using Constant = Array (*)(const Shape&, DType, Where);
void def_constant(nb::module_& m, const char* name, Constant f, const char* doc) {
  m.def(
      name,
      [f](Arg shape, Arg dtype) {
        return to_python(f(to_shape(shape.object), dtype_or(dtype.object, f64), {}));
      },
      nb::arg("shape"), nb::arg("dtype").none() = nb::none(), doc);
}
void def_like(nb::module_& m, const char* name, Unary f, const char* doc) {
  m.def(
      name,
      [f](Arg x, Arg dtype) {
        Operand operand(x);
        const Array like = f(operand.as_array(), operand.where());
        const auto wanted = to_optional_dtype(dtype.object);
        return to_python(wanted ? like.to(*wanted) : like);
      },
      nb::arg("x"), nb::arg("dtype").none() = nb::none(), doc);
}

Array ranged(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype) {
  const Number from = stop.is_none() ? Number(std::int64_t{0}) : to_number(start);
  const Number to = to_number(stop.is_none() ? start : stop);
  const Number by = step.is_none() ? Number(std::int64_t{1}) : to_number(step);
  const bool whole = from.is_whole() && to.is_whole() && by.is_whole();
  return arange(from, to, by, dtype_or(dtype, whole ? i64 : f64), {});
}

using Draw = Array (*)(const Array&, const Shape&, DType, Where);
void def_draw(nb::module_& m, const char* name, Draw f, const char* doc) {
  m.def(
      name,
      [f](Arg key, Arg shape, Arg dtype) {
        Operand k(key);
        return to_python(f(k.as_array(), to_shape(shape.object), dtype_or(dtype.object, f64), k.where()));
      },
      nb::arg("key"), nb::arg("shape") = nb::make_tuple(), nb::arg("dtype").none() = nb::none(), doc);
}

}  // namespace

void bind_creation(nb::module_& m) {
  def_constant(m, "zeros", zeros, "Zeros.");
  def_constant(m, "ones", ones, "Ones.");
  def_constant(m, "empty", zeros, "Zeros.");
  def_like(m, "zeros_like", zeros_like, "Zeros of the type of x.");
  def_like(m, "ones_like", ones_like, "Ones of the type of x.");
  m.def(
      "full",
      [](Arg shape, Arg value, Arg dtype) {
        const Shape extents = to_shape(shape.object);
        if (array_in(value.object) != nullptr || PyComplex_Check(value.object.ptr())) {
          Operand operand(value);
          Array array = operand.as_array();
          if (const auto wanted = to_optional_dtype(dtype.object)) array = array.to(*wanted);
          return to_python(broadcast_to(array, extents, place(array)));
        }
        const Number number = to_number(value.object);
        const DType own = number.dtype() == i32 ? i64 : number.dtype();
        return to_python(full(extents, number, dtype_or(dtype.object, own), {}));
      },
      nb::arg("shape"), nb::arg("fill_value"), nb::arg("dtype").none() = nb::none(), "One value everywhere.");
  m.def(
      "full_like",
      [](Arg x, Arg value) {
        Operand operand(x);
        return to_python(full_like(operand.as_array(), to_number(value.object), operand.where()));
      },
      nb::arg("x"), nb::arg("fill_value"), "One value everywhere, of the type of x.");
  m.def(
      "arange",
      [](Arg start, Arg stop, Arg step, Arg dtype) {
        return to_python(ranged(start.object, stop.object, step.object, dtype.object));
      },
      nb::arg("start"), nb::arg("stop").none() = nb::none(), nb::arg("step").none() = nb::none(),
      nb::arg("dtype").none() = nb::none(), "start, start + step, ... below stop.");
  m.def(
      "linspace",
      [](double start, double stop, std::int64_t count, Arg dtype) {
        return to_python(linspace(start, stop, count, dtype_or(dtype.object, f64), {}));
      },
      nb::arg("start"), nb::arg("stop"), nb::arg("num") = 50, nb::arg("dtype").none() = nb::none(),
      "Numbers from start to stop, both included.");
  m.def(
      "eye", [](std::int64_t n, Arg dtype) { return to_python(eye(n, dtype_or(dtype.object, f64), {})); },
      nb::arg("n"), nb::arg("dtype").none() = nb::none(), "The n x n identity.");
  m.def(
      "one_hot",
      [](Arg indices, std::int64_t depth, Arg dtype) {
        Operand operand(indices);
        return to_python(one_hot(operand.as_array(), depth, dtype_or(dtype.object, f64), operand.where()));
      },
      nb::arg("indices"), nb::arg("num_classes"), nb::arg("dtype").none() = nb::none(),
      "One where the position is that of the integer, zero elsewhere.");
}

void bind_random(nb::module_& m) {
  m.def(
      "key", [](std::int64_t seed) { return to_python(random::key(seed)); }, nb::arg("seed"),
      "A key: the same gives the same numbers, always.");
  m.def(
      "split",
      [](Arg key, std::int64_t num) {
        Operand k(key);
        return to_python(random::split(k.as_array(), num, k.where()));
      },
      nb::arg("key"), nb::arg("num") = 2, "Keys that are independent of each other.");
  m.def(
      "bits",
      [](Arg key, Arg shape, Arg dtype) {
        Operand k(key);
        return to_python(
            random::bits(k.as_array(), to_shape(shape.object), dtype_or(dtype.object, i32), k.where()));
      },
      nb::arg("key"), nb::arg("shape") = nb::make_tuple(), nb::arg("dtype").none() = nb::none(),
      "Random bits.");
  m.def(
      "uniform",
      [](Arg key, Arg shape, Arg dtype, double low, double high) {
        Operand k(key);
        return to_python(random::uniform(k.as_array(), to_shape(shape.object), dtype_or(dtype.object, f64),
                                         low, high, k.where()));
      },
      nb::arg("key"), nb::arg("shape") = nb::make_tuple(), nb::arg("dtype").none() = nb::none(),
      nb::arg("minval") = 0.0, nb::arg("maxval") = 1.0, "Uniform in [minval, maxval).");
  def_draw(m, "normal", random::normal, "Normal with mean 0 and variance 1.");
  def_draw(m, "gumbel", random::gumbel, "Of Gumbel's distribution.");
  def_draw(m, "exponential", random::exponential, "Exponential with mean 1.");
  m.def(
      "randint",
      [](Arg key, Arg shape, std::int64_t low, std::int64_t high, Arg dtype) {
        Operand k(key);
        return to_python(random::randint(k.as_array(), to_shape(shape.object), low, high,
                                         dtype_or(dtype.object, i64), k.where()));
      },
      nb::arg("key"), nb::arg("shape"), nb::arg("minval"), nb::arg("maxval"),
      nb::arg("dtype").none() = nb::none(), "Integers in [minval, maxval).");
  m.def(
      "permutation",
      [](Arg key, Arg x, std::int64_t axis) {
        Operand k(key);
        if (PyLong_Check(x.object.ptr()))
          return to_python(random::permutation(k.as_array(), nb::cast<std::int64_t>(x.object), k.where()));
        Operand operand(x);
        return to_python(random::permutation(k.as_array(), operand.as_array(), axis, operand.where()));
      },
      nb::arg("key"), nb::arg("x"), nb::arg("axis") = 0,
      "0, 1, ... x - 1, or sub-arrays, in a random order.");
  m.def(
      "bernoulli",
      [](Arg key, Arg p, Arg shape) {
        Operand k(key), probability(p);
        const ArrayLike like = probability.like(k.where());
        return to_python(shape.object.is_none()
                             ? random::bernoulli(k.as_array(), like)
                             : random::bernoulli(k.as_array(), like, to_shape(shape.object)));
      },
      nb::arg("key"), nb::arg("p") = 0.5, nb::arg("shape").none() = nb::none(), "True with probability p.");
  m.def(
      "categorical",
      [](Arg key, Arg logits, std::int64_t axis, Arg shape) {
        Operand k(key), l(logits);
        const Array &keys = k.as_array(), &array = l.as_array();
        return to_python(
            shape.object.is_none()
                ? random::categorical(keys, array, axis, place(keys, array))
                : random::categorical(keys, array, axis, to_shape(shape.object), place(keys, array)));
      },
      nb::arg("key"), nb::arg("logits"), nb::arg("axis") = -1, nb::arg("shape").none() = nb::none(),
      "Positions, each with a probability that is proportional to exp(logit).");
  m.def(
      "truncated_normal",
      [](Arg key, double low, double high, Arg shape, Arg dtype) {
        Operand k(key);
        return to_python(random::truncated_normal(k.as_array(), low, high, to_shape(shape.object),
                                                  dtype_or(dtype.object, f64), k.where()));
      },
      nb::arg("key"), nb::arg("lower"), nb::arg("upper"), nb::arg("shape") = nb::make_tuple(),
      nb::arg("dtype").none() = nb::none(), "Normal, but between lower and upper alone.");
}

}  // namespace tidu::python
